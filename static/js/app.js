// Starts what every page has. Each module binds itself by data- attributes, so swapped-in parts need no set-up.
import "./toasts.js";
import "./times.js";
import "./theme.js";
import "./forms.js";
import "./keyboard.js";
import "./palette.js";
import "./live.js";
import "./logs.js";
import { bringBack } from "./kept.js";

bringBack();
