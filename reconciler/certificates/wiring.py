"""Puts the certificates together from what the program offers."""

from collections.abc import Callable

from certs.live import configuration
from certs.report import Report, Story
from certs.rotate import Rotation
from certs.spec import spec_of
from certs.store import SecretStore, secret_version
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS
from ebbtide.kube.store import Store
from reconciler.certificates.controller import Certificates
from reconciler.engine.context import Context
from reconciler.engine.events import Event, Regarding


def build(context: Context) -> Certificates:
    """The certificates as the settings want them; in a dry run they are only looked at."""
    certs, client = context.settings.certs, context.client
    configurations, secrets = Store(configuration), Store(secret_version)
    rotation = Rotation(
        client,
        SecretStore(client, context.namespace, certs.secret_name, secrets, context.deployment),
        configurations,
        spec_of(certs, context.namespace),
        context.clock,
        Report(context.registry, _teller(context)),
        context.consult,
        dry_run=context.dry_run,
    )
    selector, named = certs.webhook_configuration_selector, f"metadata.name={certs.secret_name}"
    beside = (
        context.ages.follow(Reflector(client, MUTATING_WEBHOOKS, configurations, label_selector=selector)),
        context.ages.follow(Reflector(client, SECRETS, secrets, namespace=context.namespace, field_selector=named)),
    )
    controller = Certificates(rotation, beside)
    configurations.subscribe(controller.changed)
    secrets.subscribe(controller.changed)
    return controller


def _teller(context: Context) -> Callable[[Story], None]:
    recorder = context.shared.recorder
    secret = Regarding(SECRETS, context.settings.certs.secret_name, uid="", namespace=context.namespace)

    def tell(story: Story) -> None:
        if recorder is None:
            return
        about = story.configuration
        regarding = secret if about is None else Regarding(MUTATING_WEBHOOKS, about.name, about.uid)
        recorder.emit(Event(regarding, story.kind, story.reason, story.action, story.note))

    return tell
