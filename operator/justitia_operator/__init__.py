"""Reconciles Tenants, ServingPools and LLMApplications into engines with a scheduler sidecar."""
