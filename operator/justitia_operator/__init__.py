"""Reconciles Tenants, ServingPools and LLMApplications into engines, each with a sidecar."""
