import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Source } from "./api/source";
import { printable } from "./format";
import { ConnectionDot } from "./frame/connection";
import { ThemeButton } from "./frame/theme-button";
import { href } from "./route";
import "./frame/frame.css";

export interface Crumb {
  label: string;
  /** Where it leads; the last crumb, the page itself, has none. */
  href?: string;
}

interface PageProps {
  source: Source;
  /** From the list of runs to this page; names, shown as text. */
  crumbs: Crumb[];
  /** At the right of the bar: actions of this page. */
  actions?: ComponentChildren;
  children: ComponentChildren;
}

/** The frame of every page: the bar with where one is, whether it is live, and the theme. */
export function Page({ source, actions, children, ...props }: PageProps) {
  const crumbs = props.crumbs.map((crumb) => ({ ...crumb, label: printable(crumb.label) }));
  const title = crumbs.map((crumb) => crumb.label).join(" · ");
  useEffect(() => {
    document.title = title ? `${title} · gradwatch` : "gradwatch";
  }, [title]);
  return (
    <>
      <header class="bar">
        <nav class="crumbs" aria-label="Where you are">
          {source.report ? (
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
      <main class="page">{children}</main>
    </>
  );
}
