"""Which settings a queue gets."""

from scheduler.core.settings import DEFAULT_QUEUE, QueueSettings, Settings


def test_an_exact_name_wins_then_the_longest_pattern_then_the_default():
    exact, long, short = QueueSettings(pool="exact"), QueueSettings(pool="long"), QueueSettings(pool="short")
    settings = Settings({"w/*": short, "w/eu/*": long, "w/eu/a": exact})
    assert settings.queue("w/eu/a") is exact
    assert settings.queue("w/eu/b") is long
    assert settings.queue("w/us") is short
    assert settings.queue("other") is DEFAULT_QUEUE


def test_every_pool_is_known():
    settings = Settings({"w/*": QueueSettings(pool="a"), "x": QueueSettings(pool="b")})
    assert settings.pools() == {"a", "b", "default"}


def test_free_queue_names_take_bounded_memory():
    settings = Settings()
    for number in range(30_000):
        settings.queue(f"q{number}")
    assert len(settings._found) <= 10_000
