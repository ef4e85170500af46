"""Price messages: links, collectives, and the traffic of a layout."""
