import { memo } from "preact/compat";
import { count, ending, printable } from "../format";
import { type Forest, isBlock } from "./rows";

interface LabelsProps {
  forest: Forest;
  rows: readonly number[];
  /** The index of the first of these rows among all rows. */
  offset: number;
  top: number;
  rowHeight: number;
  width: number;
  open: ReadonlySet<number>;
  /** Whether rows are search results, which have full paths. */
  flat: boolean;
  active: number;
  linkOf: (node: number) => string | null;
  toggle: (node: number) => void;
  activate: (place: number) => void;
}

/** The id of a row, for aria-activedescendant. */
export function rowId(node: number): string {
  return `row-${node}`;
}

const INDENT = 12;
const CHARACTER = 6.65;

/** The labels of the visible rows, with carets to open blocks. */
export const Labels = memo((props: LabelsProps) => {
  const { forest, rows, offset, top, rowHeight, width, flat, active } = props;
  return (
    <div class="labels" style={{ width: `${width}px` }}>
      {rows.map((node, i) => {
        const block = !flat && isBlock(forest, node);
        const opened = props.open.has(node);
        const depth = flat ? 0 : (forest.depth[node] ?? 0);
        const path = forest.path[node] ?? "";
        const link = props.linkOf(node);
        const label = printable(flat ? path : (forest.tree.label[node] ?? ""));
        const room = (width - 44 - depth * INDENT) / CHARACTER;
        const text = flat ? ending(label, room) : label;
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
