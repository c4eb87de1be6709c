"""A refused record is told on `lifecycle`, with where it came from."""


def test_a_refusal_is_told_with_its_coordinates(world, d1):
    world.publish(b"no record", "a")
    world.turn(2)
    told = [change for change in world.lifecycle() if change.event == "refused"]
    assert [(change.reason, change.job_id) for change in told] == [("framing", "")]
    assert told[0].source.startswith("jobs.submit.default/")
    assert len(world.dead_letters()) == 1
