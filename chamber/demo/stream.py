"""A steady stream of plausible workloads, submitted by the example organisation's people as anybody submits."""

import asyncio
import logging
import random
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connections

from chamber.demo import catalogue
from chamber.demo.organisation import DemoSetting
from chamber.errors import Refusal
from teams.actors import Actor, Via
from workloads.data.written import Mount
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

logger = logging.getLogger(__name__)

MOST_OPEN = 55
"""Above so many open workloads nothing is submitted: the queue stays readable, and the file small."""

MEAN_SECONDS_BETWEEN = 6.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of workload that somebody submits. GPUs are per pod; seconds are bounds of how long it runs."""

    often: int
    who: str
    team: str
    name: str
    job_class: str
    priority: int
    pods: tuple[int, ...]
    gpus: tuple[float, ...]
    seconds: tuple[int, int]
    pool: str = "main"
    environment: str = ""
    mounts: tuple[str, ...] = ()


RECIPES = (
    Recipe(
        6,
        "rosa",
        "nlp",
        "bert-sweep",
        "experiment",
        50,
        (1,),
        (1, 1, 2),
        (40, 240),
        environment=catalogue.ENVIRONMENT,
    ),
    Recipe(3, "rosa", "nlp", "llm-finetune", "training", 50, (1, 2), (4, 8), (120, 360)),
    Recipe(1, "rosa", "nlp", "paper-deadline", "training", 75, (1, 2), (4,), (90, 240)),
    Recipe(1, "rosa", "nlp", "pretrain", "training", 100, (2, 3), (4, 8), (180, 480)),
    Recipe(5, "vito", "vision", "augment", "preprocessing", 25, (1, 2, 4), (1,), (30, 180)),
    Recipe(
        4,
        "vito",
        "vision",
        "segmenter",
        "training",
        50,
        (1, 2),
        (2, 4),
        (90, 360),
        environment=catalogue.ENVIRONMENT,
        mounts=(f"{catalogue.DATA}:/data",),
    ),
    Recipe(2, "ines", "inference", "serve-chat", "serving", 100, (1, 2), (2, 4), (240, 900)),
    Recipe(3, "ines", "inference", "embed-corpus", "batch-inference", 25, (2, 4, 6), (1,), (40, 240)),
    Recipe(4, "tara", "training", "nightly-retrain", "training", 50, (1, 2, 3), (4, 8), (120, 420)),
    Recipe(1, "tara", "training", "release-train", "training", 100, (2,), (4, 8), (180, 420)),
    Recipe(4, "rosa", "nlp", "notebook", "experiment", 50, (1,), (0.25, 0.5), (60, 600), "shared"),
    Recipe(3, "vito", "vision", "notebook", "experiment", 50, (1,), (0.25, 0.5, 1), (60, 600), "shared"),
    Recipe(2, "ines", "inference", "canary", "serving", 50, (1,), (0.75, 1), (120, 480), "shared"),
)


async def run(setting: DemoSetting) -> None:
    """Submit until cancelled: a burst at first, so that there is something to see, then one every few seconds."""
    chance = random.Random(setting.seed)  # noqa: S311 - plausible, not secret
    for _ in range(25):
        await sync_to_async(_submit_one, thread_sensitive=False)(chance)
    while True:
        await asyncio.sleep(chance.expovariate(1 / MEAN_SECONDS_BETWEEN))
        await sync_to_async(_submit_one, thread_sensitive=False)(chance)


def _submit_one(chance: random.Random) -> None:
    recipe = chance.choices(RECIPES, weights=[recipe.often for recipe in RECIPES])[0]
    try:
        if Workload.objects.open().count() < MOST_OPEN:
            user = get_user_model().objects.get(username=recipe.who)
            submit(
                by=Actor.person(user, Via.API), requests=[_request(recipe, chance)], key=None, body_sha256=""
            )
    except Refusal as refusal:
        # The people who try the demo may have moved a team or lowered a limit: the stream lives with it.
        logger.info("The stream's %s was refused: %s", recipe.name, refusal.message)
    finally:
        connections.close_all()


def _request(recipe: Recipe, chance: random.Random) -> SubmissionRequest:
    seconds = chance.randint(*recipe.seconds)
    # A few fail, as they do.
    fails = chance.random() < 0.04
    trainer = "python -m trainer --seconds"
    command = f"{trainer} {seconds // 3}; exit 1" if fails else f"{trainer} {seconds}"
    return SubmissionRequest(
        name=recipe.name,
        team=recipe.team,
        pools=[recipe.pool],
        job_class=recipe.job_class,
        priority=recipe.priority,
        pods=chance.choice(recipe.pods),
        gpus=chance.choice(recipe.gpus),
        time_limit_seconds=seconds + chance.choice((60, 300, 900)),
        runs_in=recipe.environment,
        mounts=[Mount.model_validate(each) for each in recipe.mounts],
        image="" if recipe.environment else "demo/trainer:1",
        command=["sh", "-c", command],
        read_notes=recipe.job_class == "training",
    )
