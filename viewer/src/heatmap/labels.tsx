import { memo } from "preact/compat";
import { count, printable } from "../format";
import { type Forest, isBlock } from "./rows";
import { foundLabels } from "./search";

interface LabelsProps {
  forest: Forest;
  rows: readonly number[];
  /** The index of the first of these rows among all rows. */
  offset: number;
  top: number;
  rowHeight: number;
  width: number;
  open: ReadonlySet<number>;
  /** The labels of search results; null if the rows are a tree. */
  found: readonly string[] | null;
  active: number;
  linkOf: (node: number) => string | null;
  toggle: (node: number) => void;
  activate: (place: number) => void;
}

/** The id of a row, for aria-activedescendant. */
function rowId(node: number): string {
  return `row-${node}`;
}

const INDENT = 12;
const CHARACTER = 6.65;

/** The visible rows as a tree of their labels, with carets to open blocks. */
export const Labels = memo((props: LabelsProps) => {
  const { forest, rows, offset, top, rowHeight, width, found, active } = props;
  const activeNode = rows[active - offset];
  return (
    <div
      class="labels"
      role="tree"
      aria-label="Layers in network order"
      aria-activedescendant={activeNode === undefined ? undefined : rowId(activeNode)}
      tabIndex={0}
      style={{ width: `${width}px` }}
    >
      {rows.map((node, i) => {
        const block = found === null && isBlock(forest, node);
        const opened = props.open.has(node);
        const depth = found ? 0 : (forest.depth[node] ?? 0);
        const path = forest.path[node] ?? "";
        const link = props.linkOf(node);
        const text = found?.[i] ?? printable(forest.tree.label[node] ?? "");
        return (
          <div
            key={node}
            id={rowId(node)}
            class={`label${offset + i === active ? " active" : ""}${block ? " block" : ""}`}
            role="treeitem"
            aria-level={depth + 1}
            aria-selected={offset + i === active}
            aria-expanded={block ? opened : undefined}
            tabIndex={-1}
            style={{
              transform: `translateY(${top + i * rowHeight}px)`,
              height: `${rowHeight}px`,
              paddingLeft: `${4 + depth * INDENT}px`,
            }}
            title={titleOf(forest, node)}
            onMouseDown={() => props.activate(offset + i)}
          >
            {block ? (
              <button
                type="button"
                class="caret"
                tabIndex={-1}
                aria-label={`${opened ? "Close" : "Open"} ${path}`}
                onClick={() => props.toggle(node)}
              >
                {opened ? "▾" : "▸"}
              </button>
            ) : (
              <span class="caret" />
            )}
            {link === null ? (
              <span class="name">{text}</span>
            ) : (
              <a class="name" tabIndex={-1} href={link} data-path={path}>
                {text}
              </a>
            )}
            {block && <span class="size">{count(forest.tree.count[node] ?? 0)}</span>}
          </div>
        );
      })}
    </div>
  );
});

/** The labels of search results, for a width. */
export function labelsOfFound(forest: Forest, rows: readonly number[], width: number): string[] {
  const paths = rows.map((node) => printable(forest.path[node] ?? ""));
  return foundLabels(paths, Math.max(4, Math.floor((width - 44) / CHARACTER)));
}

/** A width that fits most labels. */
export function labelWidth(forest: Forest, rows: readonly number[], flat: boolean): number {
  let widest = 0;
  for (const node of rows) {
    const length = (flat ? forest.path : forest.tree.label)[node]?.length ?? 0;
    widest = Math.max(widest, length * CHARACTER + (flat ? 0 : (forest.depth[node] ?? 0) * INDENT));
  }
  return Math.round(Math.min(340, Math.max(190, widest + 58)));
}

function titleOf({ tree, path }: Forest, node: number): string {
  const size = tree.count[node] ?? 0;
  const what = tree.site[node] ? tree.shape[node] : `${count(size)} tensors merged`;
  return what ? `${path[node]}\n${what}` : (path[node] ?? "");
}
