"""From the init request to the redirect, on the embedded cluster."""

from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICES
from reconciler.scaler.pool import Place, Target
from tests.reconciler.scaler.dedicated.stage import ID1, NAME1, Stage, story


@story()
async def test_ws_01_a_client_is_sent_to_the_worker_that_was_made_for_it(stage: Stage) -> None:
    process = stage.start()
    place = await process.place()
    address = f"http://{NAME1}.tidb-serverless.svc.cluster.local:19500"
    assert place == Place(ID1, 7, Target.DEDICATED, address)
    assert stage.names(SERVICES) == [NAME1]
    assert stage.names(PERSISTENT_VOLUME_CLAIMS) == [f"data-{NAME1}-0", f"worker0-{NAME1}-0"]
    assert stage.busy()
    assert process.dedicated.find(ID1) == place
