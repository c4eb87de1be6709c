"""A producer that knows nothing of this package: Kafka's client, Avro, and the page *Producing*."""

import io
import json
import uuid
from collections.abc import Mapping
from pathlib import Path

import fastavro
from confluent_kafka import Producer


class ThirdParty:
    """Publishes jobs as another team's service would, a few of them broken."""

    def __init__(self, properties: Mapping[str, str], topic: str, schema: Path) -> None:
        """Read the published schema and open a producer with Java's partitioner."""
        self._topic = topic
        self._schema = fastavro.parse_schema(json.loads(schema.read_text()))
        fingerprint = fastavro.schema.fingerprint(
            fastavro.schema.to_parsing_canonical_form(self._schema), "CRC-64-AVRO"
        )
        self._header = b"\xc3\x01" + bytes.fromhex(fingerprint)
        self._producer = Producer({**properties, "partitioner": "murmur2_random", "acks": "all"})

    def good(self, job_type: str, arguments: Mapping[str, object]) -> str:
        """Publish a job; return its id."""
        job_id = str(uuid.uuid4())
        self._send(job_id, self._encoded(job_id, job_type, arguments))
        return job_id

    def broken(self) -> int:
        """Publish records that no scheduler could run; return how many."""
        whole = self._encoded("broken", "demo.send_email", {"to": "x"})
        records = [
            b"",  # nothing at all
            b"{}",  # not Avro
            whole[: len(whole) // 2],  # cut off
            whole + b"more",  # something behind it
            b"\xc3\x01" + bytes(8) + whole[10:],  # a schema that nobody knows
            self._encoded("no/such*id", "demo.send_email", {"to": "x"}),  # an id out of bounds
        ]
        for record in records:
            self._send("broken", record)
        return len(records)

    def flush(self) -> None:
        """Wait until Kafka has everything."""
        self._producer.flush(30)

    def _send(self, key: str, value: bytes) -> None:
        self._producer.produce(self._topic, value, key.encode())

    def _encoded(self, job_id: str, job_type: str, arguments: Mapping[str, object]) -> bytes:
        body = io.BytesIO()
        record = {
            "job_id": job_id,
            "tenant": "partner",
            "type": job_type,
            "payload": json.dumps(arguments).encode(),
        }
        fastavro.schemaless_writer(body, self._schema, record)
        return self._header + body.getvalue()
