"""Decides who asks and for what: tenant, application, run, model, and shared prefixes."""
