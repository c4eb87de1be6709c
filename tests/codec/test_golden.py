"""The files for other languages are what the code makes, and released bytes never change."""

import json

import pytest

from scheduler.codec import catalogue, framing
from scheduler.codec.job import decode_job, encode_job
from scheduler.core import keys
from scheduler.core.digest import digest
from tests.codec import golden

FILES = golden.files()


def test_no_file_is_missing_or_left_over():
    assert {path.name for path in golden.DIRECTORY.iterdir()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_files_are_what_the_code_makes(name):
    assert (golden.DIRECTORY / name).read_bytes() == FILES[name]


@pytest.mark.parametrize("name", golden.EXAMPLES)
def test_examples_are_read_as_what_they_were_made_of(name):
    codec = next(entry.codec for entry in catalogue.entries() if entry.codec.name == name.partition(".")[0])
    assert codec.decode((golden.DIRECTORY / f"{name}.bin").read_bytes()) == golden.EXAMPLES[name]


def test_every_record_type_has_an_example():
    assert {name.partition(".")[0] for name in golden.EXAMPLES} == set(framing.NAMES)


def test_sized_blocks_make_the_same_job():
    sized = (golden.DIRECTORY / f"{golden.SIZED}.bin").read_bytes()
    assert sized != encode_job(golden.FULL)
    spec = decode_job(sized)
    assert spec == golden.FULL
    assert digest(spec) == digest(golden.FULL)


def test_shards_and_ids():
    shards = json.loads((golden.DIRECTORY / "shards.json").read_text())
    assert len(shards) == 20
    for entry in shards:
        assert {int(s): shard for s, shard in entry["shards"].items()} == {
            s: keys.shard_of(entry["id"], s) for s in (8, 32, 64)
        }
    ids = json.loads((golden.DIRECTORY / "ids.json").read_text())
    assert ids["root"] == "96d8e945-131f-5de8-a0f0-20d52aa2e16d"
