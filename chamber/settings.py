"""Settings of both ways to run; everything that differs is read from the environment through `chamber.env`."""

from pathlib import Path
from typing import Any

from chamber import __version__, encryption, env, logs, mailing, stores
from chamber.oidc import providers as identity_providers
from chamber.serving.secret import FOR_DEVELOPMENT

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("CHAMBER_DATA", str(BASE_DIR / ".demo"))).resolve()

DEBUG = env.flag("CHAMBER_DEBUG", default=False)
# What is served to others needs one of its own: `chamber.serving.start` refuses to start without.
GIVEN_SECRET_KEY = env.text("CHAMBER_SECRET_KEY", "")
SECRET_KEY = GIVEN_SECRET_KEY or FOR_DEVELOPMENT
# What encrypts stored secrets, the newest first; without any, a key made of the one above does.
ENCRYPTION_KEYS = encryption.keys_of(env.text("CHAMBER_ENCRYPTION_KEYS", ""))
# What encrypts credentials, the newest first; they are for the pods of workloads only, so that nothing else does. For
# development one is made where it is first needed (`workloads.credentials.keys`).
CREDENTIALS_KEYS = encryption.keys_of(env.text("CHAMBER_CREDENTIALS_KEY", ""), "CHAMBER_CREDENTIALS_KEY")
OWN_HOSTS = ["localhost", "127.0.0.1", "[::1]"]  # probes of the machine itself
ALLOWED_HOSTS = list(dict.fromkeys([*env.hosts("CHAMBER_HOSTS"), *OWN_HOSTS]))
# The embedded default supervises simulated agents and offers to stop and start them.
DEMO = env.flag("CHAMBER_DEMO", default=False)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.usersessions",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "chamber",
    "teams",
    "workloads",
    "agentlink",
    "scheduling",
]

MIDDLEWARE = [
    "chamber.metrics.requests.RequestCountMiddleware",
    "chamber.request_id.RequestIdMiddleware",
    "chamber.serving.proxies.TrustedProxies",
    "chamber.middleware.OriginMiddleware",
    "chamber.refused_log.RefusedLogMiddleware",
    "chamber.limiting.AddressLimitMiddleware",
    "chamber.fragments.FragmentMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "chamber.middleware.BrowserRightsMiddleware",
    "chamber.middleware.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "chamber.middleware.NoNulMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "chamber.limiting.PersonLimitMiddleware",
    "chamber.idle.IdleMiddleware",
    "chamber.middleware.SignInMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "chamber.requirement.HoldBackMiddleware",
    "chamber.sessions.SeenMiddleware",
    "chamber.viewing.ViewingMiddleware",
    "chamber.reauthentication.ReauthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "chamber.middleware.SilenceMiddleware",
    "chamber.middleware.RefusalMiddleware",
]

ROOT_URLCONF = "chamber.urls"
ASGI_APPLICATION = "chamber.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "chamber.context.chrome",
            ],
            "builtins": ["chamber.templatetags.chamber_ui"],
        },
    },
]

DATABASES = {
    "default": stores.database(
        env.text("CHAMBER_DATABASE", ""),
        DATA_DIR,
        password=env.text("CHAMBER_DATABASE_PASSWORD", ""),
        pool=env.integer("CHAMBER_DATABASE_CONNECTIONS", 10, low=2, high=500),
    )
}
# Redis carries announcements and bells between processes, and what may be lost; without it, one process is all.
REDIS = stores.redis_url(env.text("CHAMBER_REDIS", ""), env.text("CHAMBER_REDIS_PASSWORD", ""))
CACHES = stores.caches(REDIS)
CHANNEL_LAYERS = stores.channel_layers(REDIS)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "chamber.User"
# The second one is what passwords were hashed with before; each is hashed anew when it is used.
PASSWORD_HASHERS = ["chamber.passwords.Argon2", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "chamber.passwords.Similar"},
    {"NAME": "chamber.passwords.TooLong"},
    {"NAME": "chamber.passwords.Guessable"},
]
AUTHENTICATION_BACKENDS = ["chamber.names.NameOrAddress"]
PASSWORD_RESET_TIMEOUT = 3600
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "chamber:overview"
LOGOUT_REDIRECT_URL = "account_login"
# Sign-in and what belongs to it are allauth's; who has an account is decided on the page "People".
ACCOUNT_ADAPTER = "chamber.accounts.Accounts"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_EMAIL_VERIFICATION = (
    "none"  # an address that an admin gave is taken; one's own new one has to be confirmed
)
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "chamber.passwords.ResetKeys"  # noqa: S105 - a class
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_RATE_LIMITS = (
    False  # `chamber.authentication` bounds tries: it spares those whom somebody else's would lock out
)
# Second factors: pages, words and bounds are Chamber's own (`chamber.factors`).
MFA_ADAPTER = "chamber.factors.adapter.Factors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1  # periods of 30 s by which a telephone's clock may be wrong
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_RATE_LIMITS = False
MFA_ALLOW_UNVERIFIED_EMAIL = (
    True  # an address of one's own is changed with the password, and told to the old one
)
# Who else vouches for people, by OpenID Connect; who is let in so is decided in `chamber.oidc.admission`.
IDENTITY_PROVIDERS = identity_providers.read(env.text("CHAMBER_IDENTITY_PROVIDERS", ""))
SOCIALACCOUNT_ADAPTER = "chamber.oidc.adapter.Providers"
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"provider_class": "chamber.oidc.protocol.FlowProvider"}}
SOCIALACCOUNT_STORE_TOKENS = False
# Where mails go; without a server each link is shown once to whoever made it. The demo keeps them, and shows them.
MAIL_URL = env.text("CHAMBER_MAIL_URL", "")
KEEPS_MAILS = DEMO and not MAIL_URL
MAIL = bool(MAIL_URL) or KEEPS_MAILS
# Where links in mails lead: never where a request says that it came to.
PUBLIC_URL = env.origin("CHAMBER_PUBLIC_URL")
if MAIL and not (PUBLIC_URL or DEMO or DEBUG):
    raise SystemExit(
        "Links are mailed (CHAMBER_MAIL_URL is set), and need an address to lead to: set CHAMBER_PUBLIC_URL to that at "
        "which people reach Chamber, such as https://chamber.example.org."
    )
globals().update(mailing.settings_of(MAIL_URL, kept_in=DATA_DIR / "mails" if KEEPS_MAILS else None))
DEFAULT_FROM_EMAIL = mailing.sender(env.text("CHAMBER_MAIL_FROM", ""), PUBLIC_URL, ALLOWED_HOSTS)
# TLS ends at a proxy: whose word counts for the client's address and scheme (CIDRs); nobody else's does.
TRUSTED_PROXIES = env.networks("CHAMBER_TRUSTED_PROXIES")
TLS = env.flag("CHAMBER_TLS", default=bool(TRUSTED_PROXIES))
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
SECURE_HSTS_SECONDS = env.integer("CHAMBER_HSTS_SECONDS", 2_592_000, low=0, high=63_072_000) if TLS else 0
# Of whatever is below this name, too: it is no name for what is served without TLS.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.flag("CHAMBER_HSTS_SUBDOMAINS", default=True)
# What `manage.py check --deploy` would have otherwise: the proxy redirects to TLS (W008), which alone hears what came
# without; a list of browsers' own is joined by whoever owns the name, for good (W021).
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W021"]
# A session ends so long after it was last used by somebody; what an open page fetches by itself is no use of it.
# So long after somebody signed in it ends in any case.
SESSION_LONGEST_SECONDS = 3600 * env.integer("CHAMBER_SESSION_LONGEST_HOURS", 12, low=1, high=720)
SESSION_COOKIE_AGE = min(
    3600 * env.integer("CHAMBER_SESSION_IDLE_HOURS", 8, low=1, high=720), SESSION_LONGEST_SECONDS
)
# By its name browsers take it over TLS only, and from this very host: none that a neighbour has set.
SESSION_COOKIE_NAME = "__Host-sessionid" if TLS else "sessionid"
# By which a browser is known that somebody signed in with before; it lets nobody in.
DEVICES_COOKIE_NAME = "__Host-devices" if TLS else "devices"
# For so long after somebody signed in, or showed again that it is them, pages ask for no more than the session.
REAUTHENTICATION_SECONDS = 60 * env.integer("CHAMBER_REAUTHENTICATION_MINUTES", 30, low=1, high=1440)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
CSRF_TRUSTED_ORIGINS = env.origins("CHAMBER_ORIGINS")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served by the application itself from the packages' own folders, without a collecting step.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "manifest-src": ["'self'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"

# Named here, imported by nobody below: how a ring reaches the scheduler. The embedded default wakes its timer; of
# several processes each raises a version in the database and sends a message, by this Celery application.
CHAMBER_RING = env.text(
    "CHAMBER_RING", "scheduling.cycle.wake_ups.ring" if REDIS else "chamber.embedded.ring"
)
CHAMBER_CELERY = "chamber.celery.app"
# What open pages are told when it differs: what is not known of the scheduler and of clusters.
CHAMBER_SILENCE = "scheduling.explain.silence.mark"
CHAMBER_CLOCKS_APART_SECONDS = stores.CLOCKS_APART_SECONDS
# How a lower room has the pods of an ended attempt stopped: workloads calls it by name, inside its transaction.
CHAMBER_STOP_ATTEMPTS = "agentlink.assignments.stop"
# What keeps new workloads from ever starting: workloads asks it by name, once they are submitted.
CHAMBER_NEVER_STARTS = "scheduling.explain.submission.sentences"
# What keeps somebody who is signed in from doing anything yet: sessions and streams ask it by name.
CHAMBER_HOLDS_BACK = "chamber.requirement.holds_back"
# How much one person, token or address may ask for (`chamber.limits`); 0 is any number.
LIMITS = {
    "person": env.integer("CHAMBER_LIMIT_PERSON", 2_400, low=0, high=10_000_000),
    "token": env.integer("CHAMBER_LIMIT_TOKEN", 1_200, low=0, high=10_000_000),
    "address": env.integer("CHAMBER_LIMIT_ADDRESS", 30_000, low=0, high=10_000_000),
    "anonymous": env.integer("CHAMBER_LIMIT_ANONYMOUS", 300, low=0, high=10_000_000),
    "parts": env.integer("CHAMBER_LIMIT_PARTS", 12_000, low=0, high=10_000_000),
    "submissions": env.integer("CHAMBER_LIMIT_SUBMISSIONS", 20_000, low=0, high=100_000_000),
    "open": env.integer("CHAMBER_LIMIT_OPEN_WORKLOADS", 20_000, low=0, high=100_000_000),
    "tokens": env.integer("CHAMBER_LIMIT_TOKENS", 100, low=1, high=10_000),
    "notes": env.integer("CHAMBER_LIMIT_NOTES", 120, low=0, high=100_000),
    "streams": env.integer("CHAMBER_LIMIT_STREAMS", 20, low=0, high=100_000),
}
# How long history is kept, and what of it otherwise (`teams.retention.kept`; None: as long as the rest).
CHAMBER_KEEP_DAYS = env.integer("CHAMBER_KEEP_DAYS", 365, low=30, high=36_500)
CHAMBER_KEEP_WORKLOAD_DAYS = env.integer_or_none("CHAMBER_KEEP_WORKLOAD_DAYS", low=30, high=36_500)
CHAMBER_KEEP_AUDIT_DAYS = env.integer_or_none("CHAMBER_KEEP_AUDIT_DAYS", low=30, high=36_500)
CHAMBER_KEEP_LOG_DAYS = env.integer_or_none("CHAMBER_KEEP_LOG_DAYS", low=1, high=36_500)
CHAMBER_KEEP_SAMPLE_DAYS = env.integer_or_none("CHAMBER_KEEP_SAMPLE_DAYS", low=2, high=36_500)
CHAMBER_KEEP_CYCLE_DAYS = env.integer("CHAMBER_KEEP_CYCLE_DAYS", 7, low=1, high=365)
# What signs the chain of the audit trail, and is not in the database; without one, the secret key. Those that were used
# before prove what they signed.
AUDIT_KEY = env.text("CHAMBER_AUDIT_KEY", "")
AUDIT_KEYS_BEFORE = tuple(env.text("CHAMBER_AUDIT_KEYS_BEFORE", "").replace(",", " ").split())
# The image that this server runs, which the agents of clusters can have too: named in the commands that install them.
CHAMBER_IMAGE = env.text("CHAMBER_IMAGE", "")
# Where pods reach this server, to say what they saved and how far they are; without it they are told no address.
POD_URL = env.origin("CHAMBER_POD_URL")
# Which GPUs count as idle though a workload holds them: used less than this, in every figure of so long a time.
CHAMBER_IDLE_PERCENT = env.integer("CHAMBER_IDLE_PERCENT", 5, low=1, high=100)
CHAMBER_IDLE_MINUTES = env.integer("CHAMBER_IDLE_MINUTES", 15, low=1, high=1440)
# One table of duties for both ways to run: Celery beat's, and the embedded timer's.
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "schedule": stores.duty("scheduling.tasks.run_cycle", every_seconds=1),
    "enforce time limits": stores.duty("workloads.tasks.enforce_time_limits", every_seconds=1),
    "hold back credentials": stores.duty("workloads.tasks.hold_back_credentials", every_seconds=5),
    "watch heartbeats": stores.duty("agentlink.tasks.watch_heartbeats", every_seconds=5),
    "beat": stores.duty("chamber.tasks.heartbeat", every_seconds=5),
    "hold back": stores.duty("chamber.tasks.tell_who_is_held_back", every_seconds=2),
    "sync providers": stores.duty("chamber.tasks.sync_providers", every_seconds=60),
    "add up cycles": stores.duty("chamber.tasks.add_up_cycles", every_seconds=10),
    "sample usage": stores.duty("scheduling.tasks.sample_usage", every_seconds=60),
    "forget what is old": stores.duty("workloads.tasks.forget_old", every_seconds=600),
    "forget logs": stores.duty("agentlink.tasks.forget_logs", every_seconds=600),
    "forget nodes": stores.duty("agentlink.tasks.forget_nodes", every_seconds=3600),
    "seal the audit trail": stores.duty("teams.tasks.seal_audit", every_seconds=5),
    "check the audit trail": stores.duty("teams.tasks.check_audit", every_seconds=60),
    "forget sign-ins": stores.duty("chamber.tasks.forget_sign_ins", every_seconds=3600),
    "roll up usage": stores.duty("scheduling.tasks.roll_up_usage", every_seconds=3600),
    "roll up GPU use": stores.duty("agentlink.tasks.roll_up_gpu_use", every_seconds=3600),
    "prune cycles": stores.duty("scheduling.tasks.prune_cycles", every_seconds=3600),
}
CELERY_BROKER_URL, CELERY_BROKER_TRANSPORT_OPTIONS = stores.broker(REDIS)
CELERY_BROKER_USE_SSL = stores.broker_tls(REDIS)
CELERY_BROKER_CONNECTION_TIMEOUT = stores.CONNECT_SECONDS
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker outlives any absence of Redis
# A ring or a beat that cannot be sent is not waited for: the next beat comes within a second.
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.2,
}
CELERY_TASK_ROUTES = {"scheduling.tasks.run_cycle": {"queue": "scheduling"}}
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_QUEUES = stores.queues("scheduling", "celery")
# What is in Redis is JSON: whoever can write there may not have a worker run code.
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "chamber.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "chamber.authentication.TokenScope",
        "chamber.requirement.HasSecondFactor",
    ],
    "DEFAULT_RENDERER_CLASSES": [
        "rest_framework.renderers.JSONRenderer",
        "rest_framework.renderers.BrowsableAPIRenderer",
    ],
    "DEFAULT_PARSER_CLASSES": ["chamber.rest.BoundedJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "chamber.rest.Negotiation",
    "DEFAULT_PAGINATION_CLASS": "chamber.rest.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "chamber.api_document.DescribedOperation",
    "DEFAULT_VERSIONING_CLASS": None,
    "EXCEPTION_HANDLER": "chamber.rest.problem_response",
    "PAGE_SIZE": 50,
    "DEFAULT_THROTTLE_RATES": {},
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Chamber",
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "SERVERS": [{"url": "/"}],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "chamber.api_document.finished",
    ],
    "ENUM_NAME_OVERRIDES": {
        "DeviceSharingEnum": "teams.models.DeviceSharing",
        "SourceKindEnum": "workloads.models.SourceKind",
    },
    # The bounds of what stands in an address. Names are as long as the largest column that holds one.
    "PATH_CONVERTER_OVERRIDES": {
        "slug": {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$", "maxLength": 253},
        "str": {"type": "string", "pattern": "^[^/]+$", "maxLength": 253},
        "int": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    },
    "SERVE_INCLUDE_SCHEMA": False,
}
# How large the disk of PostgreSQL's server is, where nothing here can measure it; 0 where that is not known.
DATABASE_DISK_GIB = env.integer("CHAMBER_DATABASE_DISK_GIB", 0, low=0, high=1_000_000)
# Who may read /metrics from elsewhere; without one, only programs on this machine.
METRICS_TOKEN = env.text("CHAMBER_METRICS_TOKEN", "")
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

LOGGING = logs.configuration(
    env.choice("CHAMBER_LOG_FORMAT", "line", logs.FORMS),
    env.choice("CHAMBER_LOG_LEVEL", "INFO", logs.LEVELS),
)
