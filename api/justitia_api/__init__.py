"""The documents that components exchange: resource types, the pool's configuration, headers, reasons."""
