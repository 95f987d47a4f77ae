"""Who asks, and for what: tenant, application, run, model, and whose cached prefixes."""
