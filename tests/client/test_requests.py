"""Ids and payloads of requests, single or many (DU-09)."""

import uuid

import pytest

from scheduler.client.client import request_for
from scheduler.client.errors import InvalidJob
from scheduler.client.ids import uuid7
from scheduler.core import bounds, keys
from scheduler.core.keys import shard_of


def request(payload=None, tenant="acme", **options):
    return request_for(tenant, "shop.greet", payload, options)


class TestIds:
    def test_one_key_is_one_id_whatever_the_payload(self):
        ids = {request(payload, idempotency_key="K").id for payload in ({"p": 1}, {"p": 1}, {"p": 2})}
        assert ids == {keys.id_from_key("acme", "K")}

    def test_keys_of_tenants_are_apart(self):
        assert request(idempotency_key="K").id != request(tenant="other", idempotency_key="K").id

    def test_the_tenant_of_the_options_counts(self):
        made = request_for("acme", "shop.greet", None, {"tenant": "other", "idempotency_key": "K"})
        assert made.id == keys.id_from_key("other", "K")

    def test_without_a_key_each_request_is_a_job_of_its_own(self):
        assert len({request({"p": 1}).id for _ in range(100)}) == 100

    def test_the_id_given_after_unknown_is_used(self):
        assert request(job_id="0199-abc").id == "0199-abc"

    def test_id_and_key_may_both_be_given_if_they_agree(self):
        assert request(job_id=keys.id_from_key("acme", "K"), idempotency_key="K").spec.idempotency_key == "K"


class TestUuid7:
    def test_form(self):
        made = [uuid.UUID(uuid7()) for _ in range(1_000)]
        assert {one.version for one in made} == {7}
        assert {one.variant for one in made} == {uuid.RFC_4122}
        assert len(set(made)) == 1_000

    def test_the_noise_is_noise(self):
        bits = 0
        for _ in range(500):
            bits |= uuid.UUID(uuid7()).int
        assert bits & ((1 << 62) - 1) == (1 << 62) - 1

    def test_text_is_canonical(self):
        text = uuid7()
        assert str(uuid.UUID(text)) == text


class TestSharding:
    @pytest.mark.parametrize("shards", [1, 6, 8, 32, 64])
    def test_is_the_rule_of_the_wire(self, shards):
        ids = [uuid7() for _ in range(500)] + ["a", "order-17", "x" * 64, "x" * 36, "x" * 35]
        assert [shard_of(one, shards) for one in ids] == [keys.shard_of(one, shards) for one in ids]


class TestPayloads:
    def test_values_become_json(self):
        assert request({"a": [1, "x", None, 1.5]}).spec.payload == b'{"a":[1,"x",null,1.5]}'

    def test_bytes_are_a_payload_already(self):
        assert request(b'{"a": 1}').spec.payload == b'{"a": 1}'
        assert request(b"\x00\xff", content_type="image/png").spec.payload == b"\x00\xff"

    @pytest.mark.parametrize(
        "wrong", [b"{", b"\xff", b"", {"a": object()}, {"a": float("nan")}, {"a": "\ud800"}]
    )
    def test_what_is_not_json(self, wrong):
        with pytest.raises(InvalidJob, match=r"shop.greet: payload "):
            request(wrong)

    def test_other_content_types_take_bytes(self):
        with pytest.raises(InvalidJob, match="payload must be bytes under content type image/png"):
            request({"a": 1}, content_type="image/png")

    def test_depth_is_no_crash(self):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(InvalidJob, match="payload is not JSON"):
            request(deep)

    def test_the_limit_is_named_with_the_value(self):
        request(b" " * (bounds.PAYLOAD_MAX_BYTES - 2) + b"{}")
        with pytest.raises(InvalidJob, match="payload: 262145 bytes above the limit 262144"):
            request(b" " * (bounds.PAYLOAD_MAX_BYTES - 1) + b"{}")
