"""Answer agents: tools, resources and limits of a server that speaks the Model Context Protocol."""
