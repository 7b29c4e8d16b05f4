import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Source } from "./api/source";
import type { RunData } from "./api/types";
import { printable } from "./format";
import { BusyNote, ConnectionDot } from "./frame/connection";
import { ThemeButton } from "./frame/theme-button";
import { href, type Query } from "./route";
import "./frame/frame.css";

export interface Crumb {
  label: string;
  /** The link target; the last crumb is the page itself and has none. */
  href?: string;
}

/** What the parts of the page of a run need. */
export interface RunProps {
  source: Source;
  run: RunData;
  query: Query;
  /** The number of changes of the run so far. */
  changes: number;
}

interface PageProps {
  source: Source;
  /** The path from the list of runs to this page. */
  crumbs: Crumb[];
  /** Actions of this page, at the right of the bar. */
  actions?: ComponentChildren;
  children: ComponentChildren;
}

/** The frame of every page: a bar with the path, the state of the connection and the theme. */
export function Page({ source, actions, children, ...props }: PageProps) {
  const crumbs = props.crumbs.map((crumb) => ({ ...crumb, label: printable(crumb.label) }));
  const title = crumbs.map((crumb) => crumb.label).join(" · ");
  useEffect(() => {
    document.title = title ? `${title} · gradwatch` : "gradwatch";
  }, [title]);
  return (
    <>
      <header class="bar">
        <nav class="crumbs" aria-label="Breadcrumb">
          {source.alone ? (
            <span class="brand">gradwatch</span>
          ) : (
            <a class="brand" href={href({ page: "runs" })}>
              gradwatch
            </a>
          )}
          {crumbs.map((crumb) => (
            <span class="crumb" key={crumb.label} title={crumb.label}>
              {crumb.href ? <a href={crumb.href}>{crumb.label}</a> : crumb.label}
            </span>
          ))}
        </nav>
        <div class="bar-end">
          {actions}
          <ConnectionDot source={source} />
          <ThemeButton />
        </div>
      </header>
      <main class="page">
        <BusyNote source={source} />
        {children}
      </main>
    </>
  );
}
