"""The composition root: constructs the parts of the server and connects them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, disable_created_metrics

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.models.tried_bundles import TriedBundles
from xuanzang.server.lifecycle import Server
from xuanzang.server.metrics import Metrics
from xuanzang.server.metrics_endpoint import MetricsEndpoint
from xuanzang.server.rpc.admin_server import AdminServer
from xuanzang.server.rpc.server import RpcServer, TLSFiles
from xuanzang.server.settings import Settings, split_address

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def bootstrap(settings: Settings) -> Server:
    """Construct a server that is bound to its addresses; call it inside a running event loop.

    Args:
        settings: Valid settings.

    Returns:
        A server without models; `run` loads them.

    Raises:
        OSError: An address is taken.
    """
    # These hold the creation time of each series and would double the size of a scrape.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    engine = Engine(settings.models, settings=settings, metrics=metrics, trial_loader=_trial_loader(settings))
    rpc = RpcServer(engine, address=settings.address, tls=_tls_files(settings), limits=settings, metrics=metrics)
    return Server(
        rpc=rpc,
        admin=_admin_server(settings, engine, metrics),
        engine=engine,
        metrics_endpoint=MetricsEndpoint(registry, **split_address(settings.metrics_address)._asdict()),
        drain_timeout_seconds=settings.drain_timeout_seconds,
    )


def _admin_server(settings: Settings, engine: Engine, metrics: Metrics) -> AdminServer | None:
    address = settings.admin_address
    if address is None:
        return None
    is_loopback = split_address(address).host in _LOOPBACK
    return AdminServer(engine.live, address=address, is_loopback=is_loopback, tls=_tls_files(settings), metrics=metrics)


def _trial_loader(settings: Settings) -> TrialLoader:
    configuration = f"{settings.provider} {settings.kernels} {settings.intra_op_threads} {settings.shortlist}"
    try:
        file = settings.tried_bundles.expanduser()
    except RuntimeError:
        # Some containers run as a user without a home folder.
        return TrialLoader(settings)
    return TrialLoader(settings, known=TriedBundles(file, configuration=configuration))


def _tls_files(settings: Settings) -> TLSFiles | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TLSFiles(certificate=settings.tls_certificate, key=settings.tls_key, client_ca=settings.tls_client_ca)
