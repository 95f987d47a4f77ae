"""The Valkey, or other server of the Redis 7 protocol, that a pool's engines share: connections, logs, users."""
