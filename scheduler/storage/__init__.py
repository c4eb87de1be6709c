"""The ordered key-value store of a shard: RocksDB and in memory, behind one contract suite."""
