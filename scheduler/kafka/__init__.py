"""The Kafka adapter: topics, consumers, transactions, errors."""
