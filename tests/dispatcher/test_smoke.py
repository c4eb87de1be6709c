def test_a_job_is_run(world, worker):
    worker.offer()
    world.submit("a")
    world.turn(2)
    (lease,) = worker.leases()
    worker.done(lease, result=b"1")
    world.turn(2)
    assert world.state("a").phase == "succeeded"
