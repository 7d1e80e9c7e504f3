"""Settings of both ways to run; everything that differs is read from the environment through `chamber.env`."""

import os
import tempfile
from pathlib import Path
from typing import Any

from chamber import __version__, env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("CHAMBER_DATA", str(BASE_DIR / ".demo"))).resolve()

DEBUG = env.flag("CHAMBER_DEBUG", default=False)
SECRET_KEY = env.text("CHAMBER_SECRET_KEY", "for-development-and-tests-only-" + "x" * 32)
ALLOWED_HOSTS = env.words("CHAMBER_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CHAMBER_ORIGINS", "")
# The embedded default supervises simulated agents and offers to stop and start them.
DEMO = env.flag("CHAMBER_DEMO", default=False)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
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
    "django.middleware.security.SecurityMiddleware",
    "chamber.middleware.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
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
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "chamber.sqlite3",
        "OPTIONS": {
            # Writers queue at BEGIN instead of failing midway; readers never wait for them.
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; "
                "PRAGMA mmap_size=134217728; PRAGMA cache_size=-32000;"
            ),
        },
        # A file, as in use: a test's threads have connections of their own, and several runs may go on at once.
        "TEST": {"NAME": str(Path(tempfile.gettempdir()) / f"chamber-test-{os.getpid()}.sqlite3")},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "chamber.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "chamber:overview"
LOGOUT_REDIRECT_URL = "login"
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
SECURE_REFERRER_POLICY = "same-origin"

CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}
}

# Named here, imported by nobody below: how a ring reaches the scheduler. The embedded default wakes its timer.
CHAMBER_RING = env.text("CHAMBER_RING", "chamber.embedded.ring")
# How a lower room has the pods of an ended attempt stopped: workloads calls it by name, inside its transaction.
CHAMBER_STOP_ATTEMPTS = "agentlink.assignments.stop"
# One table of duties for both ways to run: Celery beat's, and the embedded timer's.
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "schedule": {"task": "scheduling.tasks.run_cycle", "schedule": 1.0},
    "enforce time limits": {"task": "workloads.tasks.enforce_time_limits", "schedule": 1.0},
    "watch heartbeats": {"task": "agentlink.tasks.watch_heartbeats", "schedule": 5.0},
    "sample usage": {"task": "scheduling.tasks.sample_usage", "schedule": 60.0},
    "prune cycles": {"task": "scheduling.tasks.prune_cycles", "schedule": 3600.0},
}
CELERY_BROKER_URL = env.text("CHAMBER_BROKER", "memory://")
CELERY_TASK_IGNORE_RESULT = True

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "chamber.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "chamber.authentication.TokenScope",
    ],
    "DEFAULT_RENDERER_CLASSES": [
        "rest_framework.renderers.JSONRenderer",
        "rest_framework.renderers.BrowsableAPIRenderer",
    ],
    "DEFAULT_PARSER_CLASSES": ["chamber.rest.BoundedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "chamber.rest.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_VERSIONING_CLASS": None,
    "EXCEPTION_HANDLER": "chamber.rest.problem_response",
    "PAGE_SIZE": 50,
    "DEFAULT_THROTTLE_RATES": {},
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Chamber",
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("CHAMBER_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "httpx": {"level": "WARNING"},
        "uvicorn": {"level": "WARNING"},
    },
}
