"""`[worker-scaler]`: placement of load-data tasks, dedicated workers, and the shared pool."""

from typing import Annotated, Literal

from pydantic import Field

from ebbtide.config.kinds import (
    Count,
    DomainName,
    LabelValue,
    Listen,
    Namespace,
    ObjectName,
    OptionalHttpUrl,
    OptionalLabelKey,
    OptionalPort,
    PlainSeconds,
    Port,
    PositiveCount,
    PositiveSeconds,
    Section,
    ServiceName,
    Size,
    Unsigned64,
    table_list,
)
from ebbtide.config.names import ANY_HOST, HostPort


class PoolSpec(Section, frozen=True):
    """Size of a pod of the shared pool. A missing key has its built-in value; if the whole then makes no sense (a
    zero, a negative value, a request above its limit), all built-in values are used and a warning is given."""

    request_cpu: float = 4
    """Cores requested."""

    limit_cpu: float = 4
    """Most cores used."""

    worker_num: int = 1
    """Workers in a pod, each with a volume of its own."""

    storage_size_gb: int = 64
    """Size of each volume, in GiB. The claims of existing pods are not changed by it."""

    request_memory: float = 15
    """Memory requested, in GiB."""

    limit_memory: float = 15
    """Most memory used, in GiB."""

    node_group: LabelValue = ""
    """Node group that the pods are pinned to, by node selector and toleration. "": not pinned."""

    node_selector_key: OptionalLabelKey = ""
    """Key of a further node selector. "": none."""

    node_selector_value: LabelValue = ""
    """Value of that node selector."""


class Tier(Section, frozen=True):
    """Size of a dedicated worker for tasks from a data size on. Replaces the built-in tier of the same data size, or
    adds one. Without request-cpu, limit-cpu or worker-num the entry is dropped and a warning is given."""

    min_data_size_gb: Count
    """Smallest data size of this tier, in whole GiB."""

    request_cpu: float | None = None
    """Cores requested; capped by `worker-max-cores`."""

    limit_cpu: float | None = None
    """Most cores used; capped by `worker-max-cores`."""

    worker_num: int | None = None
    """Workers in the pod, each with a volume of its own."""

    storage_size_gb: int | None = None
    """Size of each volume, in GiB. Not set: computed from the data size."""

    request_memory: float | None = None
    """Memory requested, in GiB. Not set: 4 for each core requested."""

    limit_memory: float | None = None
    """Most memory used, in GiB. Not set: 4 for each core of the limit."""

    node_group: LabelValue = ""
    """Node group that the worker is pinned to. "": not pinned."""

    node_selector_key: OptionalLabelKey = ""
    """Key of a further node selector. "": none."""

    node_selector_value: LabelValue = ""
    """Value of that node selector."""


class WorkerScaler(Section, frozen=True):
    """Worker scaler: places load-data tasks on local pods, dedicated workers or the shared pool."""

    run: bool = False
    """Whether the reconciler runs the worker scaler. Off: nothing listens on `listen`."""

    namespace: Namespace = "tidb-serverless"
    """Where the template and all workers live."""

    template_sts_name: ObjectName = "tikv-api"
    """StatefulSet that every worker is copied from; read again for each worker."""

    name: ServiceName = "load-data-worker"
    """First part of the names of dedicated workers; the task id follows."""

    worker_port: Port = 19500
    """Port of the workers."""

    max_size: Size = 1 << 40
    """Largest data size that is accepted; above it the client gets an error."""

    spawn_data_size: Size = 2 << 30
    """Above this data size a task gets a dedicated worker."""

    spawn_running_tasks: Count = 8
    """Only while the shared pool is off: with more tasks than this on the least busy local pod, a smaller task gets a
    dedicated worker too."""

    worker_min_storage_gb: PositiveCount = 20
    """Smallest volume of a dedicated worker, in GiB."""

    worker_max_cores: Annotated[float, Field(gt=0)] = 4
    """Most cores of a dedicated worker: caps both request and limit."""

    expire_seconds: PlainSeconds = 600.0
    """How long a dedicated worker without work is kept before it is deleted with its volumes."""

    worker_count_limit: PositiveCount = 1024
    """Most dedicated workers at once. A task beyond it is told to come again."""

    shared_pool_enabled: bool = False
    """Whether small tasks go to the shared pool. Switched off later: it drains, then goes to zero."""

    shared_pool_name: Annotated[ServiceName, Field(max_length=52)] = "ldw-shared"
    """Name of the shared pool's StatefulSet and Service. At most 52 characters, or its pods could not be labelled."""

    shared_min_replicas: Count = 0
    """Fewest pods of the shared pool, kept without any traffic. 0 lets it go to zero."""

    shared_max_replicas: PositiveCount = 64
    """Most pods of the shared pool."""

    shared_scale_up_tasks_per_pod: PositiveCount = 16
    """Running tasks per pod that the size of the pool is computed with. Smaller: more pods."""

    shared_max_tasks_per_pod: PositiveCount = 24
    """Running tasks per pod up to which a pod is given more while the pool cannot grow fast enough (a soft limit,
    see `shared-hard-cap`)."""

    shared_idle_pod_expire_sec: PlainSeconds = 600.0
    """How long the last pod of the shared pool must have been idle before it is removed."""

    listen: Listen = HostPort(ANY_HOST, 19500)
    """Where the front for `/load_data` listens."""

    advertise_url: OptionalHttpUrl = ""
    """Where replicas that do not lead send clients. "": `http://$POD_IP` and the port of `listen`."""

    worker_address: Literal["dns", "pod-ip"] = "dns"
    """How clients are told where a worker is: "dns" by the Service's name, "pod-ip" for clients outside the cluster's
    DNS."""

    cluster_domain: DomainName = "cluster.local"
    """DNS domain of the cluster, the end of every worker's name."""

    cluster_id: Unsigned64 = 0
    """Cluster id that requests must carry. 0: taken from each request and kept with its task."""

    refresh_interval: PositiveSeconds = 10.0
    """How often workers are asked for their tasks, and the pool's size is computed."""

    start_timeout: PositiveSeconds = 300.0
    """How long a request waits for a worker to become ready before it is answered with 503."""

    status_timeout: PositiveSeconds = 5.0
    """How long one worker may take to report its tasks. Past it the worker counts as unknown, never as idle."""

    stuck_task_expire_seconds: PlainSeconds = 0.0
    """After this long without progress a task no longer keeps its dedicated worker. 0: never."""

    shared_stuck_pod_expire_sec: PlainSeconds = 0.0
    """After this long a pod at the end of the pool that never ran may be removed. 0: never."""

    shared_hard_cap: bool = False
    """Whether a full pool at its largest size refuses tasks (503) rather than overfilling its least busy pod."""

    reservation_seconds: PlainSeconds = 600.0
    """How long a promised place counts as load before the task is seen there."""

    shared_ended_task_grace_sec: PlainSeconds = 0.0
    """After this age an ended task that a pod still lists no longer keeps the pod. 0: it always does."""

    local_port: OptionalPort = 0
    """Port of the local pods. 0: the same as `worker-port`."""

    scheme: Literal["http", "https"] = "http"
    """Protocol of workers and local pods."""

    sts_configs: Annotated[tuple[Tier, ...], table_list("a list of tables with the keys of a size tier")] = ()
    """Further size tiers of dedicated workers. Each has the keys of `shared-sts-config` and `min-data-size-gb`."""

    shared_sts_config: PoolSpec = PoolSpec()
