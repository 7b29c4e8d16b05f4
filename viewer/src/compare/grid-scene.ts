import type { CellGrid, CellView } from "../cells/grid";
import { cellPicture } from "../cells/picture";
import { heldSpans } from "../cells/spans";
import { axisTicks, bottomAxis } from "../charts/frame";
import { tickTexts } from "../charts/numbers";
import { stepTicks, ticks } from "../charts/scale";
import { corners, group, type Picture, type Shape, text } from "../charts/scene";
import type { Comparison } from "./comparison";
import { CHARACTER, fittingPath, type GridLayout, gridLayout, ROW } from "./grid-layout";

/** A cell, or with `column` null the label of a row. */
export interface Pointed {
  row: number;
  column: number | null;
}

/** The visible rows with their labels, and the axis below them. */
export function gridScene(
  { about }: Comparison,
  grid: CellGrid,
  layout: GridLayout,
  view: CellView,
  marked: { chosen: string; pointed: Pointed | null },
): Shape[] {
  const { left, scale } = layout;
  const { height, scrolled } = view;
  const right = left + scale.width;
  const first = Math.floor(scrolled / ROW);
  const last = Math.min(about.paths.length, Math.ceil((scrolled + height) / ROW));
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const axis = axisOf(about.align, scale.range, scale.width / 90);
  return [
    { type: "cells", x: left, y: 0, grid, view },
    group(
      0,
      -scrolled,
      rows.flatMap((row) => rowShapes(about, grid, layout, row, marked)),
      { x: 0, y: scrolled, width: right + 1, height },
    ),
    ...bottomAxis(
      axisTicks(axis.ticks, axis.texts, (tick) => left + scale.x(tick)),
      axis.label,
      { left, right, top: height },
    ),
  ];
}

/** The heatmap with all of its rows: the export. */
export function gridPicture(
  comparison: Comparison,
  grid: CellGrid,
  title: string,
  legend: string,
): Picture {
  const { paths, align } = comparison.about;
  const { left, scale } = gridLayout(comparison, 1000);
  return cellPicture({
    title,
    grid,
    label: (row) => fittingPath(paths[row] ?? "", left - 10),
    labelWidth: left,
    rowHeight: ROW,
    scale,
    axis: axisOf(align, scale.range, 8),
    legend,
  });
}

function axisOf(align: "step" | "fraction", range: { from: number; to: number }, count: number) {
  const interval = { low: range.from, high: range.to };
  const steps = align === "step";
  const found = steps ? stepTicks(interval, count) : ticks(interval, "linear", count);
  return { label: steps ? "step" : "share of training", ticks: found, texts: tickTexts(found) };
}

function rowShapes(
  { paths, merged }: Comparison["about"],
  grid: CellGrid,
  { left, scale }: GridLayout,
  row: number,
  { chosen, pointed }: { chosen: string; pointed: Pointed | null },
): Shape[] {
  const path = paths[row] ?? "";
  const isChosen = path === chosen;
  const isPointed = pointed?.row === row;
  const bold = isChosen || Boolean(merged[row]);
  const label = fittingPath(path, left - 10, bold ? CHARACTER.bold : CHARACTER.plain);
  const fill = isChosen ? "--accent" : isPointed ? "--ink" : "--muted";
  const shapes: Shape[] = [
    text(left - 8, row * ROW + ROW / 2 + 4, label, { fill, bold, align: "right" }),
  ];
  const outline = (x: number, width: number, stroke: string): Shape => {
    const box = corners({ x, y: row * ROW, width, height: ROW - 1 });
    return { type: "path", lines: [box], closed: true, stroke, width: 1.5 };
  };
  if (isChosen) shapes.push(outline(left, scale.width, "--accent"));
  const cells = grid.row(row);
  if (isPointed && pointed.column !== null && cells)
    for (const { column, begin, end } of heldSpans(cells))
      if (column === pointed.column)
        shapes.push(outline(left + scale.x(begin), scale.x(end) - scale.x(begin), "--ink"));
  return shapes;
}
