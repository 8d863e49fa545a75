"""The local Gemini, and what Penstock adds to a row of a batch over Google's bare client."""
