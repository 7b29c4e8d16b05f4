import { useMemo } from "preact/hooks";
import type { Source } from "./api/source";
import { ComparePage } from "./compare/page";
import { OverviewPage } from "./overview/page";
import { useRoute } from "./route";
import { RunsPage } from "./runs/page";
import { SitePage } from "./site/page";

/** The page that the address names. A report has only its one run. */
export function App(props: { source: Source; reported: string | null }) {
  const { reported } = props;
  const route = useRoute();
  // In a run of several processes, all requests are for the chosen rank.
  const { rank = "" } = route.query;
  const source = useMemo(() => props.source.ofRank(rank), [props.source, rank]);
  if (reported !== null) {
    if (route.page === "site")
      return <SitePage source={source} run={reported} query={route.query} />;
    return <OverviewPage key={reported} source={source} run={reported} query={route.query} />;
  }
  switch (route.page) {
    case "runs":
      return <RunsPage source={source} query={route.query} />;
    case "run":
      return <OverviewPage key={route.run} source={source} run={route.run} query={route.query} />;
    case "site":
      return <SitePage source={source} run={route.run} query={route.query} />;
    case "compare":
      return <ComparePage source={source} query={route.query} />;
  }
}
