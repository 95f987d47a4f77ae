"""`justitia demo`: the main job on this machine, measured. The same load under three policies on one engine."""
