"""A real Kafka for development and tests."""
