import { useLayoutEffect } from "preact/hooks";
import type { Source } from "../api/source";
import type { RunData, Tree } from "../api/types";
import { count } from "../format";
import { RankChooser } from "../ranks/chooser";
import { href, navigate, type Query } from "../route";
import { useAnswer } from "../use";
import { nearest, neighbours, pathParts } from "./places";

interface HeaderProps {
  source: Source;
  run: RunData;
  /** The state of the page, which links to other sites keep. */
  query: Query;
}

/** The path of a site, with links to its other kinds and to its neighbours. */
export function SiteHeader({ source, run, query }: HeaderProps) {
  const { kind = "", path = "" } = query;
  const kinds = run.kinds.map((one) => one.kind).join(" ");
  const { data: trees } = useAnswer(
    (signal) => Promise.all(run.kinds.map((one) => source.tree(run.id, one.kind, signal))),
    [kinds],
    run.id,
  );
  const tree = trees?.find((one) => one.kind === kind) ?? null;
  const link = (toKind: string, toPath: string) =>
    href({ page: "site", run: run.id }, placeQuery(query, toKind, toPath));
  return (
    <div class="site-header">
      <div class="site-title">
        <h1 class="path">
          {pathParts(tree, path).map(({ label, above }, i) => (
            <>
              {i > 0 && <span class="muted">/</span>}
              {above !== null && source.hasSeries(kind, above) ? (
                <a href={link(kind, above)} title={`All of ${above}, merged`}>
                  {label}
                </a>
              ) : (
                label
              )}
            </>
          ))}
        </h1>
        <RankChooser source={source} run={run} rank={query.rank ?? ""} />
        <Steps source={source} run={run} tree={tree} query={query} />
      </div>
      <nav class="site-kinds" aria-label="Kinds">
        {run.kinds.map((one) => {
          const target = targetIn(source, trees, one.kind, path, kind);
          if (target === null) return null;
          const elsewhere = target === path ? "" : ` of ${target}`;
          return (
            <a
              key={one.kind}
              href={link(one.kind, target)}
              aria-current={one.kind === kind ? "page" : undefined}
            >
              {one.label}
              {elsewhere && <span class="muted">{elsewhere}</span>}
            </a>
          );
        })}
      </nav>
    </div>
  );
}

function targetIn(
  source: Source,
  trees: Tree[] | null,
  kind: string,
  path: string,
  current: string,
): string | null {
  if (kind === current) return path;
  const tree = trees?.find((one) => one.kind === kind);
  const found = tree ? nearest(tree, path) : null;
  return found !== null && source.hasSeries(kind, found) ? found : null;
}

/** Links to the sites before and after in network order; also the keys [ and ]. */
function Steps({ source, run, tree, query }: HeaderProps & { tree: Tree | null }) {
  const { kind = "", path = "" } = query;
  const around = tree ? neighbours(tree, path, (one) => source.hasSeries(kind, one)) : null;
  const { previous = null, next = null } = around ?? {};
  // A layout effect: keys work as soon as the page is visible.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      const to = { "[": previous, "]": next }[event.key];
      if (!to || isTyping(event.target)) return;
      navigate({ page: "site", run: run.id }, placeQuery(query, kind, to));
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [previous, next, query, kind, run.id]);
  if (around === null || around.of < 2) return null;
  const step = (to: string | null, key: string, arrow: string, word: string) =>
    to === null ? (
      <span class="faint">{arrow}</span>
    ) : (
      <a
        href={href({ page: "site", run: run.id }, placeQuery(query, kind, to))}
        title={`${word}: ${to} (key ${key})`}
        aria-label={`${word}: ${to}`}
      >
        {arrow}
      </a>
    );
  return (
    <span class="site-steps">
      {step(previous, "[", "←", "Previous")}
      <span class="muted">
        {count(around.place)} of {count(around.of)}
      </span>
      {step(next, "]", "→", "Next")}
    </span>
  );
}

/** The state of the page of another site, with the same steps and scales. */
function placeQuery(query: Query, kind: string, path: string): Query {
  return { ...query, kind, path, picture: "" };
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, select, textarea");
}
