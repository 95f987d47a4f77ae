"""What the experiments found, as claims, tables and plots; changing it does not change their results."""
