"""The shared heart. Imports nothing of ours; its shelves import downwards: edge, wire, meaning, facts."""
