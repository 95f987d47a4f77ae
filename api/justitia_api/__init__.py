"""What components tell each other: resource types, the pool's configuration document, headers and reasons."""
