"""Each bench runs to its end on a real broker and prints its figures; how large they are decides nothing here."""

import json
import os
import subprocess
import sys

import pytest

BENCHES = {
    "drain": (("--jobs", "500"), {"jobs_per_s", "dispatcher_us_per_job", "records_per_job", "bytes_per_job"}),
    "latency": (("--rate", "50", "--seconds", "2"), {"p50_ms", "p99_ms"}),
    "submit": (("--jobs", "2000"), {"jobs_per_s"}),
    "scheduled": (("--jobs", "1000"), {"dispatcher_rss_mb", "early", "lateness_p99_ms"}),
    "restore": (("--records", "5000"), {"empty_disk_records_per_s", "old_disk_records_per_s", "own_disk_s"}),
    "takeover": (
        ("--shards", "8", "--jobs", "200"),
        {"taken_s", "longest_turn_ms", "longest_turn_losing_ms"},
    ),
    "beats": (("--workers", "50", "--seconds", "6"), {"core_percent", "records_per_s"}),
    "failover": (("--runs", "1"), {"kill_p99_s", "stop_p99_s", "kill_gained_p99_s"}),
}


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_prints_its_figures(kafka, name):
    options, wanted = BENCHES[name]
    run = subprocess.run(
        [sys.executable, "-m", "scheduler", "bench", name, *options, "--json"],
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert wanted <= figures.keys()
    assert all(figures[key] > 0 for key in wanted - {"early", "core_percent"})
    assert figures.get("early", 0) == 0
    assert figures.get("lost", 0) == 0
