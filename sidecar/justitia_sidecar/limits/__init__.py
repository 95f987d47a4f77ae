"""Bounds that tenants share, and who gives way."""
