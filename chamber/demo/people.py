"""The people of the example organisation, whose password anybody knows: `chamber serve` looks for it."""

from teams.models import Role

PASSWORD = "chamber-demo"  # noqa: S105 - printed at every start; the demo listens on this machine only

# User name, first name, team, role, words for the greeting (empty: not greeted).
PEOPLE = (
    ("olga", "Olga", "Acme", Role.ORG_ADMIN, "organisation admin"),
    ("otto", "Otto", "Acme", Role.OPERATOR, "operator"),
    ("adam", "Adam", "Research", Role.ADMIN, "admin of Research"),
    ("lena", "Lena", "NLP", Role.LEAD, "lead of NLP"),
    ("rosa", "Rosa", "NLP", Role.RESEARCHER, "researcher in NLP"),
    ("vera", "Vera", "Acme", Role.VIEWER, "viewer"),
    ("vito", "Vito", "Vision", Role.RESEARCHER, ""),
    ("ines", "Ines", "Inference", Role.RESEARCHER, ""),
    ("tara", "Tara", "Training", Role.RESEARCHER, ""),
)
