import { render } from "preact";
import { HttpSource } from "./api/http";
import { findSnapshot, SnapshotSource } from "./api/snapshot";
import { App } from "./app";
import { startTheme } from "./theme";
import "./style/theme.css";

startTheme();
const place = document.getElementById("app");
const snapshot = findSnapshot();
if (place)
  render(
    snapshot ? (
      <App source={new SnapshotSource(snapshot)} reported={snapshot.run.id} />
    ) : (
      <App source={new HttpSource()} reported={null} />
    ),
    place,
  );
