"""The composition root: constructs the parts of the server and connects them."""

from __future__ import annotations

import hashlib
import logging

from prometheus_client import CollectorRegistry, disable_created_metrics

from xuanzang.server.access.authentication import Authenticator, KeyRing
from xuanzang.server.access.callers import GlossaryWriters
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.quota_counts import OwnCounts, QuotaCounts, SharedCounts
from xuanzang.server.access.settings import ANYBODY
from xuanzang.server.access.tls import ReloadedTLS, TLSFiles
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.hardware import choose_kernels
from xuanzang.server.engine.models.trial_loader import TrialLoader, TriedBundles
from xuanzang.server.engine.runtime.sessions import resolve_provider
from xuanzang.server.lifecycle import Server
from xuanzang.server.member import Member, Membership
from xuanzang.server.metrics import Metrics
from xuanzang.server.metrics_endpoint import MetricsEndpoint
from xuanzang.server.observation.observation import AccessLog, Observation
from xuanzang.server.rpc.server import ListeningServer, RpcServer, admin_server, health_server
from xuanzang.server.settings import Settings, is_loopback, split_address

_LOGGER = logging.getLogger(__name__)


def bootstrap(settings: Settings, membership: str | None = None) -> Server:
    """Construct a server that is bound to its addresses, without models; call it inside a running event loop.

    `membership` makes it one of several: the variable that their parent sets.

    Raises:
        OSError: An address is taken, the access log cannot be written, or the keys file, a certificate or a setting of
            OpenTelemetry is not valid.
        ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
    """
    # These hold the creation time of each series and would double the size of a scrape.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    member = Member(Membership.of(membership)) if membership else None
    metrics = Metrics(registry := CollectorRegistry())
    engine = _engine(settings, metrics)
    access_metrics, observation = AccessMetrics(registry), _observation(settings, metrics)
    keys = None if settings.keys_file is None else KeyRing(settings.keys_file, access_metrics, counts=_counts(member))
    rpc = RpcServer(
        engine,
        address=settings.address,
        authenticator=_authenticator(settings, keys, access_metrics),
        tls=_tls(settings, access_metrics),
        limits=settings,
        explanations=settings,
        metrics=metrics,
        observation=observation,
        writers=GlossaryWriters(settings.glossary_writers),
        processes=1 if member is None else member.membership.processes,
        own_address=settings.process_address,
    )
    return Server(
        rpc=rpc,
        observation=observation,
        admin=_admin_server(settings, engine, keys, metrics, access_metrics, member),
        health=_health_server(settings, rpc, metrics, shares_address=member is not None),
        engine=engine,
        metrics_endpoint=MetricsEndpoint(registry, **split_address(settings.metrics_address)._asdict()),
        drain_timeout_seconds=settings.drain_timeout_seconds,
        member=member,
    )


def _engine(settings: Settings, metrics: Metrics) -> Engine:
    cache = settings.tried_file.parent if settings.tried_file else None
    return Engine(
        settings.models,
        settings=settings,
        metrics=metrics,
        trial_loader=_trial_loader(settings),
        promotion=settings,
        cache=cache,
        packed_weights=cache if settings.share_weights else None,
    )


def _health_server(
    settings: Settings, rpc: RpcServer, metrics: Metrics, *, shares_address: bool
) -> ListeningServer | None:
    if not settings.health_address:
        return None
    return health_server(rpc.health, address=settings.health_address, metrics=metrics, shares_address=shares_address)


def _counts(member: Member | None) -> QuotaCounts:
    if member is None:
        return OwnCounts()
    return SharedCounts(member.membership.quotas, process=member.membership.process)


def _observation(settings: Settings, metrics: Metrics) -> Observation:
    tracing = None
    if settings.tracing:
        # Its imports take a tenth of a second, and are there only with the extra.
        from xuanzang.server.observation.tracing import Tracing  # noqa: PLC0415

        try:
            tracing = Tracing()
        except ValueError as error:
            raise OSError(f"a setting of OpenTelemetry is not valid: {error}") from error
    target, dropped = settings.access_log, metrics.server.access_log_dropped
    access_log = None if target is None else AccessLog(target, dropped=dropped)
    return Observation(access_log, tracing=tracing, dropped=dropped)


def _admin_server(
    settings: Settings,
    engine: Engine,
    keys: KeyRing | None,
    metrics: Metrics,
    access_metrics: AccessMetrics,
    member: Member | None,
) -> ListeningServer | None:
    address, anonymous = settings.admin_address, settings.admits_anonymous_administrators
    if address is None:
        return None
    if not is_loopback(split_address(address).host):
        if anonymous and settings.tls_client_ca is None:
            _LOGGER.warning("anybody who reaches the admin address can unload models", extra={"address": address})
        if not anonymous and settings.tls_certificate is None:
            _LOGGER.warning("keys of administrators cross the network in plain text", extra={"address": address})
    return admin_server(
        engine.live,
        engine.promoter,
        address=address,
        authenticator=Authenticator(keys, anonymous=anonymous, metrics=access_metrics, role="admin"),
        tls=_tls(settings, access_metrics),
        metrics=metrics,
        share=member.share if member else None,
    )


def _trial_loader(settings: Settings) -> TrialLoader:
    provider = resolve_provider(settings.provider)
    kernels = choose_kernels(provider, enabled=settings.kernels)
    library = kernels.library and hashlib.sha256(kernels.library.read_bytes()).hexdigest()
    configuration = f"{provider} {kernels.isa} {library} {settings.intra_op_threads} {settings.shortlist}"
    file = settings.tried_file
    return TrialLoader(settings, known=TriedBundles(file, configuration=configuration) if file else None)


def _tls(settings: Settings, metrics: AccessMetrics) -> ReloadedTLS | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    files = TLSFiles(certificate=settings.tls_certificate, key=settings.tls_key, client_ca=settings.tls_client_ca)
    return ReloadedTLS(files, metrics)


def _authenticator(settings: Settings, keys: KeyRing | None, metrics: AccessMetrics) -> Authenticator:
    anonymous = settings.admits_anonymous
    if settings.glossary_writers == ANYBODY and not settings.is_loopback:
        _LOGGER.warning("anyone who may translate can store and delete glossaries", extra={"address": settings.address})
    _LOGGER.info("access", extra={"anonymous": anonymous, "keys": keys and keys.usable, "tls": settings.tls_kind})
    if anonymous and settings.tls_client_ca is None and not settings.is_loopback:
        _LOGGER.warning("anyone who reaches the address may translate", extra={"address": settings.address})
    if keys is not None and settings.tls_certificate is None and not settings.is_loopback:
        _LOGGER.warning("API keys cross the network in plain text: turn TLS on, here or in a proxy")
    return Authenticator(keys, anonymous=anonymous, metrics=metrics, trusted_proxies=settings.trusted_proxies)
