"""Logs on the server: from the agents' logs connections to viewers, in whatever process either is.

`consumers` is an agent's connection, and `exchange` what goes on in it: it asks the agent for a pod's lines once,
however many look, and hands them on over the channel layer. `viewing` is one look: it asks for what it wants again and
again, so that whatever is lost or restarted in between costs a moment, and nothing flows for a viewer that is gone.
`kept` is the table of what remains after a pod's end, `sources` says which pod of which attempt is meant, `texts` how
lines are told.
"""
