import type { ComponentChildren, HTMLAttributes } from "preact";

/** The space that a tooltip needs at the right of the pointer and below it. */
const ROOM = { width: 340, height: 140 };
const DISTANCE = 14;

interface TooltipProps extends HTMLAttributes<HTMLDivElement> {
  /** The position of the pointer in the window. */
  at: { x: number; y: number };
  children: ComponentChildren;
}

/** Text next to the pointer, inside of the window. */
export function Tooltip({ at: { x, y }, children, ...attributes }: TooltipProps) {
  const left = x > window.innerWidth - ROOM.width;
  const above = y > window.innerHeight - ROOM.height;
  return (
    <div
      class="readout"
      {...attributes}
      style={{
        left: `${x + (left ? -DISTANCE : DISTANCE)}px`,
        top: `${y + (above ? -DISTANCE : DISTANCE)}px`,
        transform: `translate(${left ? "-100%" : "0"}, ${above ? "-100%" : "0"})`,
      }}
    >
      {children}
    </div>
  );
}
