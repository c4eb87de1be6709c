"""How a child runs handlers: one at a time, on an event loop, or in threads."""
