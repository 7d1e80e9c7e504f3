"""Capacity pools over the API."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.rest import require_version
from teams import actions
from teams.actions import PoolChanges
from teams.api import shapes
from teams.api.requests import actor, one_page, person, pool_for, values_of, versioned
from teams.api.shapes import in_gpus
from teams.api.teams import IF_MATCH
from teams.capacity import capacities, guaranteed_milli, oversubscribed
from teams.models import Pool
from teams.picture import TreePicture


def _bodies(pools: list[Pool]) -> list[dict[str, Any]]:
    picture, capacity = TreePicture.load(), capacities(pools)
    guaranteed = guaranteed_milli(picture)
    warnings = oversubscribed(picture, {key: has.milli for key, has in capacity.items()})
    return [
        {
            "id": pool.pk,
            "slug": pool.slug,
            "name": pool.name,
            "order": pool.order,
            "node_selector": pool.node_selector,
            "clusters": pool.clusters,
            "topology": pool.topology,
            "policy": pool.rules.model_dump(mode="json"),
            "paused": pool.paused,
            "version": pool.version,
            "capacity": in_gpus(capacity[pool.pk].milli),
            "slices": capacity[pool.pk].slices,
            "slice_gpus": in_gpus(capacity[pool.pk].slices_milli),
            "guaranteed": in_gpus(guaranteed[pool.pk]),
            "warning": warnings.get(pool.pk),
        }
        for pool in pools
    ]


def _answer(pool: Pool, *, code: int = status.HTTP_200_OK) -> Response:
    return versioned(_bodies([pool])[0], pool.version, status=code)


def policy_over(pool: Pool, values: dict[str, Any]) -> PoolChanges:
    """Return the changes with the pool's policy complete: keys that `values` does not name stay as they are."""
    if "policy" in values:
        values = {**values, "policy": {**pool.rules.model_dump(mode="json"), **values["policy"]}}
    return cast("PoolChanges", values)


class Pools(APIView):
    """All pools, in the order in which they pick nodes."""

    @extend_schema(responses=shapes.PoolShape(many=True))
    def get(self, request: Request) -> Response:
        """Return them with capacity and what is guaranteed of it."""
        return one_page(_bodies(list(Pool.objects.visible_to(person(request)))))

    @extend_schema(request=shapes.NewPool, responses={201: shapes.PoolShape})
    def post(self, request: Request) -> Response:
        """Make a pool."""
        values = cast("PoolChanges", values_of(request, shapes.NewPool))
        pool = actions.create_pool(by=actor(request), values=values)
        return _answer(pool, code=status.HTTP_201_CREATED)


class PoolDetail(APIView):
    """One pool."""

    @extend_schema(responses=shapes.PoolShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return it."""
        return _answer(pool_for(request, slug))

    @extend_schema(request=shapes.PoolPatch, responses=shapes.PoolShape, parameters=[IF_MATCH])
    def patch(self, request: Request, slug: str) -> Response:
        """Change it; of the policy, absent keys stay as they are."""
        pool = pool_for(request, slug)
        require_version(request, pool.version)
        changes = policy_over(pool, values_of(request, shapes.PoolPatch))
        return _answer(actions.edit_pool(by=actor(request), pool=pool, version=pool.version, changes=changes))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete it; 409 while it has nodes, workloads, history or guarantees."""
        actions.delete_pool(by=actor(request), pool=pool_for(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)
