"""The gradients of single replicas, from the arrays of a measured step."""

from typing import Any

from gradwatch.capture.replicas import replica_name
from gradwatch.capture.site_table import SiteTable
from gradwatch.core import Site
from gradwatch.measure import Fetched
from gradwatch.watches import Due, Plan


def of_replica(
    replica: int, plan: Plan, due: Due, wait: Fetched, table: SiteTable | None
) -> dict[Site, Any]:
    """The gradients of one replica: packed summaries by site."""
    rows = wait()["replicas"][replica]
    sites = {at: plan.sites[i] for at, i in enumerate(plan.per_replica) if i in due.per_replica}
    return {Site(s.kind, f"{replica_name(replica)}/{s.path}"): rows[at] for at, s in sites.items()}
