"""What a seed may choose from: how large a world is, what its jobs do, and which faults happen how often."""

import msgspec

EVERYTHING: dict[str, int] = {
    "kill_dispatcher": 3,
    "kill_in_turn": 4,
    "stop_dispatcher": 4,
    "pause_in_turn": 6,
    "cut_dispatcher": 5,
    "lose_coordinator": 3,
    "abort": 6,
    "fenced": 2,
    "unknown_outcome": 4,
    "rebalance": 4,
    "leave": 2,
    "rejoin": 2,
    "step_clock": 4,
    "read_little": 4,
    "deafen": 4,
    "wipe_disk": 1,
    "old_disk": 1,
    "kill_worker": 4,
    "stop_worker": 5,
    "cut_worker": 6,
    "deafen_worker": 3,
    "drain_worker": 2,
    "cut_clients": 1,
    "slow_network": 4,
    "forge": 3,
    "end_runs": 2,
    "spoil": 1,
    "poison": 1,
    "bug": 1,
}


class Profile(msgspec.Struct, frozen=True):
    """One kind of world. Times are in milliseconds of virtual time."""

    faults: dict[str, int]
    chaos_ms: int = 240_000
    jobs: int = 200
    fault_every_ms: int = 4_000
    run_ms: tuple[int, ...] = (1, 50, 500, 500, 4_000, 15_000, 45_000)
    failing: float = 0.35
    emitting: float = 0.15
    delayed: float = 0.3
    repeats: float = 0.08
    repeat_after_ms: tuple[int, ...] = (0, 30_000)
    misrouted: float = 0.1
    doubled: float = 0.03
    late: float = 0.04
    in_transaction: float = 0.05
    keep_ms: int = 10**12
    forget_every_ms: tuple[int, ...] = (5_000, 60_000)
    delete_retention_ms: int = 24 * 3_600_000
    shards: tuple[int, ...] = (3, 4)
    dispatchers: tuple[int, ...] = (2, 3)
    workers: tuple[int, ...] = (3, 4, 5)
    standbys: tuple[int, ...] = (0, 0, 1, 2)


def only(*names: str) -> dict[str, int]:
    return {name: EVERYTHING[name] for name in names}


LEASES = {
    **only("cut_worker", "stop_worker", "slow_network", "pause_in_turn", "cut_dispatcher", "stop_dispatcher"),
    **only("abort", "unknown_outcome", "read_little", "rebalance", "kill_in_turn", "end_runs", "forge"),
    **only("lose_coordinator", "deafen_worker"),
}

PROFILES: dict[str, Profile] = {
    "everything": Profile(EVERYTHING),
    "long runs": Profile(
        LEASES,
        jobs=90,
        run_ms=(8_000, 45_000, 90_000),
        failing=0.15,
        fault_every_ms=3_000,
        delayed=0.1,
        late=0.08,
        workers=(4, 5),
    ),
    "turns": Profile(
        {
            **only("abort", "fenced", "read_little", "lose_coordinator", "slow_network", "kill_worker"),
            "abort": 25,
            "unknown_outcome": 15,
            "pause_in_turn": 3,
            "kill_in_turn": 4,
            "rebalance": 2,
        },
        fault_every_ms=500,
        emitting=0.5,
        chaos_ms=120_000,
        jobs=300,
        repeats=0.0,
    ),
    "sleepers": Profile(
        {
            **only("stop_dispatcher", "rebalance", "unknown_outcome", "cut_worker"),
            "pause_in_turn": 20,
            "lose_coordinator": 8,
        },
        jobs=250,
        run_ms=(50, 4_000, 30_000),
        fault_every_ms=2_000,
        delayed=0.1,
        dispatchers=(3,),
    ),
    "workers": Profile(
        {"stop_worker": 10, "cut_worker": 20, "slow_network": 4, "kill_worker": 1, "drain_worker": 1},
        jobs=90,
        run_ms=(20_000, 60_000, 90_000),
        failing=0.1,
        fault_every_ms=2_000,
        delayed=0.0,
        late=0.1,
        workers=(4, 5),
    ),
    "moves": Profile(
        {"cut_worker": 10, "rebalance": 3, "slow_network": 1},
        jobs=90,
        run_ms=(60_000, 90_000),
        failing=0.1,
        fault_every_ms=2_000,
        delayed=0.0,
        workers=(5,),
        dispatchers=(3,),
    ),
    "hand-overs": Profile(
        {
            **only("slow_network", "kill_dispatcher", "unknown_outcome", "abort", "stop_worker"),
            "rebalance": 4,
            "rejoin": 3,
            "cut_worker": 16,
            "deafen_worker": 6,
            "end_runs": 4,
        },
        jobs=60,
        run_ms=(20_000, 60_000, 90_000),
        failing=0.1,
        fault_every_ms=1_800,
        delayed=0.0,
        late=0.1,
        workers=(4, 5),
    ),
    "deaf": Profile(
        {
            "read_little": 10,
            "deafen": 2,
            "cut_worker": 2,
            "forge": 8,
            "slow_network": 2,
            "lose_coordinator": 2,
            "abort": 2,
        },
        jobs=80,
        run_ms=(4_000, 20_000, 60_000),
        failing=0.2,
        fault_every_ms=2_000,
        delayed=0.1,
    ),
    "short keep": Profile(
        {**EVERYTHING, "deafen": 15, "read_little": 15, "old_disk": 4, "kill_dispatcher": 6},
        run_ms=(1, 50, 500, 4_000),
        keep_ms=8_000,
        delete_retention_ms=60_000,
        repeats=0.5,
        repeat_after_ms=(0, 500, 2_000, 6_000),
        misrouted=0.2,
        delayed=0.1,
        in_transaction=0.2,
        forget_every_ms=(500, 2_000),
    ),
    "quiet": Profile(
        EVERYTHING, chaos_ms=1_000_000, jobs=150, fault_every_ms=40_000, run_ms=(50, 4_000, 200_000)
    ),
    "repeats": Profile(
        {
            **only(
                "read_little", "abort", "unknown_outcome", "rebalance", "kill_dispatcher", "stop_dispatcher"
            ),
            "slow_network": 2,
            "deafen_to_submits": 30,
        },
        run_ms=(1, 50, 500),
        failing=0.05,
        delayed=0.0,
        keep_ms=8_000,
        delete_retention_ms=60_000,
        repeats=0.9,
        repeat_after_ms=(500, 4_000, 8_000, 11_000),
        misrouted=0.4,
        in_transaction=0.2,
        forget_every_ms=(500, 2_000),
        late=0.01,
    ),
    "lost coordinators": Profile(
        {"lose_coordinator": 20, "rebalance": 2, "cut_worker": 3, "kill_worker": 1},
        jobs=120,
        run_ms=(4_000, 20_000, 60_000),
        failing=0.1,
        fault_every_ms=3_000,
        delayed=0.0,
        chaos_ms=120_000,
    ),
    "deaf workers": Profile(
        {"deafen_worker": 12, "end_runs": 12, "rebalance": 1, "kill_dispatcher": 1},
        jobs=60,
        run_ms=(60_000, 90_000),
        failing=0.1,
        fault_every_ms=2_000,
        delayed=0.0,
        workers=(4, 5),
        chaos_ms=160_000,
    ),
    "late acknowledgements": Profile(
        {"cut_worker": 4, "hear_before_it_speaks": 16},
        jobs=60,
        run_ms=(60_000, 90_000),
        failing=0.05,
        fault_every_ms=1_500,
        delayed=0.0,
        workers=(5,),
        chaos_ms=160_000,
    ),
    "short jobs": Profile(
        {"rebalance": 10, "kill_dispatcher": 1},
        jobs=400,
        run_ms=(1, 50),
        failing=0.05,
        delayed=0.0,
        chaos_ms=100_000,
        fault_every_ms=2_000,
        keep_ms=2_000,
        forget_every_ms=(500,),
        dispatchers=(3,),
    ),
    "crowd": Profile(
        EVERYTHING, chaos_ms=120_000, jobs=400, run_ms=(1, 20, 50, 300), shards=(6, 8), dispatchers=(3, 4)
    ),
}


SHARES = (
    *("everything", "long runs", "short keep", "turns", "everything", "hand-overs", "crowd", "deaf"),
    *("long runs", "short keep", "everything", "sleepers", "quiet", "hand-overs", "workers", "turns"),
    "repeats",
)


def profile_of(seed: int) -> str:
    """Return the name of a seed's profile."""
    return SHARES[seed % len(SHARES)]


def has_tiny_bounds(seed: int) -> bool:
    return seed % 2 == 1
