"""Clusters of their own for these tests, in a state directory of their own, except for the class archives."""

import pytest

from scheduler.devkafka import archive, cluster_dir, left_running, runs


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """Directories for clusters that only this test sees. Archives stay where they are: making one takes 10 s."""
    throwaways = tmp_path / "throwaway"
    for module in (cluster_dir, left_running):
        monkeypatch.setattr(module, "throwaway_clusters_dir", lambda: throwaways)
    for module in (runs, left_running):
        monkeypatch.setattr(module, "runs_dir", lambda: tmp_path / "runs")
    monkeypatch.setattr(left_running, "dev_cluster_dirs", lambda: sorted(tmp_path.glob("dev-*")))
    monkeypatch.setenv("JOBS_DEV_KAFKA", "java")
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert archive.archives_dir().name == "archives"
    return tmp_path
