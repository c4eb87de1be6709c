"""Bytes to core types and back, by the Avro schemas."""
