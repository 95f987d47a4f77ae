"""What the documentation site makes from the code: its reference pages and its picture."""
