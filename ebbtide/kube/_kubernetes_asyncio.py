"""kubernetes-asyncio without its 700 generated models.

Importing any part of kubernetes-asyncio runs `kubernetes_asyncio/__init__.py`, which imports every model and every API
class: 37 MB of memory for classes that ebbtide never uses. Three packages do that, so before anything of the library
is imported they are put into `sys.modules` unexecuted: their submodules can be imported as ever, and a package that is
asked for a name that is neither there nor a submodule runs its own `__init__` then, as though it had been imported at
that moment. Code elsewhere in the process that does want `kubernetes_asyncio.client.V1Pod` so gets it.

See docs/decisions/0003-kubernetes-asyncio-without-its-models.md.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, Final

_DEFERRED: Final = ("kubernetes_asyncio", "kubernetes_asyncio.client", "kubernetes_asyncio.client.models")
# Debuggers and test tools probe every module for double-underscore names; only these two are worth the whole load.
_DUNDERS_WORTH_LOADING: Final = ("__version__", "__all__")


class _Deferred(ModuleType):
    """A package whose `__init__` has not run yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _DUNDERS_WORTH_LOADING:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if importlib.util.find_spec(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        object.__setattr__(self, "__class__", ModuleType)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or name in sys.modules:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Deferred
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def _import_slim() -> tuple[ModuleType, ModuleType, ModuleType]:
    if not any(name in sys.modules for name in _DEFERRED):
        for name in _DEFERRED:
            _defer(name)
        client = sys.modules["kubernetes_asyncio.client"]
        # The two names of the client package that the configuration loaders import.
        for module, name in (("configuration", "Configuration"), ("api_client", "ApiClient")):
            setattr(client, name, getattr(importlib.import_module(f"{client.__name__}.{module}"), name))
    return (
        importlib.import_module("kubernetes_asyncio.client.configuration"),
        importlib.import_module("kubernetes_asyncio.config.incluster_config"),
        importlib.import_module("kubernetes_asyncio.config.kube_config"),
    )


_configuration, _incluster, _kubeconfig = _import_slim()

Configuration: Any = _configuration.Configuration
InClusterConfigLoader: Any = _incluster.InClusterConfigLoader
KubeConfigLoader: Any = _kubeconfig.KubeConfigLoader
KubeConfigMerger: Any = _kubeconfig.KubeConfigMerger
ConfigException: type[Exception] = _kubeconfig.ConfigException
