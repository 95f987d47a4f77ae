"""What tenants share a bound of, and who gives way."""
