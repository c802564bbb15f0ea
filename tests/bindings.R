# bindings.R DIRECTORY NUMBERS - the functions of examples/r (pu.R and the pu.so that was built there, in DIRECTORY): the bits of
# tests/compile/flat_numbers.c (its output: the file NUMBERS), R's own functions on R's own data, gaps, conditions, Ctrl-C, memory.
arguments <- commandArgs(TRUE)
source(file.path(arguments[1], "pu.R"))

passed <- failed <- 0
check <- function(what, holds)
{
    if (isTRUE(holds)) passed <<- passed + 1
    else {
        failed <<- failed + 1
        cat("FAIL ", what, "\n")
    }
}
close_to <- function(a, b, tolerance) all(abs(as.numeric(a) - as.numeric(b)) <= tolerance * abs(as.numeric(b)))

# The condition that an expression ends with, or NULL.
caught <- function(expression) tryCatch({ expression; NULL }, condition = identity)
refuses <- function(what, class, words, expression)
{
    condition <- caught(expression)
    check(paste0(what, ": ", conditionMessage(condition)), inherits(condition, class) && grepl(words, conditionMessage(condition), fixed = TRUE))
}

# ---- the bits of C

hex <- sprintf("%a", scan(arguments[2], what = 0, quiet = TRUE))
i <- 0:179
y <- ifelse(i %% 7 == 3, NA, (i * i * 7 + 3 * i) %% 11 + 8 * (i %/% 12 %% 3))
level <- pu_fit("structural", y[1:60], parts = "level")
at <- predict(level)
gradient <- pu_gradient(level)
pca <- pu_fit("ppca", matrix(y, 30, byrow = TRUE), latent = 2, steps = 5, optimizer = "lbfgs")
z <- .Call("pu_r_moments", pca$state$handle, pca$theta, "z")
series <- .Call("pu_r_moments", level$state$handle, level$theta, "y")
new <- simulate(pca, 3, seed = 11)
ours <- c(level$theta, gradient, pu_nll(level), pu_errors(level), series$mean, series$fit, series$variance, pca$theta, z$mean,
          z$variance, t(new$z), t(new$y))
check("as many numbers as C has", length(ours) == length(hex) && length(hex) == 350)
check("the bits of C", identical(sprintf("%a", as.numeric(ours)), hex))
check("a gradient at the end of a fit", all(abs(gradient) < 0.01 & attr(gradient, "se") == 0))
check("standard deviations of a prediction", identical(at$sd, sqrt(as.vector(series$variance))) && length(at$mean) == 60)

# ---- R's own functions

nile <- pu_fit("structural", Nile, parts = "level")
check("Nile: likelihood", close_to(logLik(nile), -633.464563636, 1e-9))
check("Nile: StructTS", close_to(coef(nile), StructTS(Nile, "level")$coef, 1e-2))
ahead <- predict(nile, n.ahead = 3)
check("Nile: forecast", close_to(ahead$mean, 798.3703, 1e-4) && all(diff(ahead$sd) > 0) && length(ahead$mean) == 3)
check("Nile: summary", identical(rownames(summary(nile)), c("var.level", "var.irregular")))
check("Nile: printed", any(grepl("converged", capture.output(print(nile)))))

trend <- cbind(intercept = 1, year = as.vector(time(LakeHuron)) - 1920)
huron <- pu_fit("structural", LakeHuron, parts = "ar:2 no_irregular", regressors = trend)
theirs <- arima(LakeHuron, order = c(2, 0, 0), xreg = trend[, "year"])
check("Lake Huron: likelihood of arima", close_to(logLik(huron), theirs$loglik, 1e-8))
check("Lake Huron: its coefficients", close_to(tail(coef(huron), 2), tail(theirs$coef, 2), 1e-3))
check("Lake Huron: phi", close_to(coef(huron)[2], theirs$coef[2], 1e-3) &&
      close_to(coef(huron)[1] * (1 - coef(huron)[2]), theirs$coef[1], 1e-3))
check("Lake Huron: sigma^2", close_to(coef(huron)["var.ar"], theirs$sigma2, 1e-3))
check("Lake Huron: standard errors", close_to(tail(pu_errors(huron), 2), tail(sqrt(diag(theirs$var.coef)), 2), 0.02))

# One group of equal size: the residual variance of REML is that of the analysis of variance.
group <- warpbreaks$tension
reml <- pu_fit("effects", warpbreaks$breaks, level.tension = group, method = "reml", X = rep(1, nrow(warpbreaks)))
within <- summary(aov(breaks ~ tension, warpbreaks))[[1]]
check("mixed effects: analysis of variance", close_to(coef(reml)[["var.residual"]], within$`Mean Sq`[2], 1e-3) &&
      close_to(coef(reml)[["var.tension"]], (within$`Mean Sq`[1] - within$`Mean Sq`[2]) / 18, 1e-2))

# Ridge regression with the penalty that was fitted.
X <- cbind(1, cars$speed)
line <- pu_fit("regression", cars$dist, Phi = X)
ridge <- solve(coef(line)[["alpha"]] / coef(line)[["beta"]] * diag(2) + crossprod(X), crossprod(X, cars$dist))
check("regression: ridge", close_to(pu_posterior(line)$mean, ridge, 1e-8))

# ---- gaps, shapes, files

holes <- Nile
holes[c(5, 20:29)] <- NA
filled <- predict(pu_fit("structural", holes, parts = "level"))
check("gaps have the larger errors", mean(filled$sd[20:29]) > mean(filled$sd[40:60]) && all(is.finite(filled$mean)))
check("a matrix comes back as one", identical(dim(predict(pca)$mean), c(30L, 6L)) && identical(dim(pu_posterior(pca)$sd), c(30L, 2L)))
check("the first row of it", close_to(predict(pca, matrix(y, 30, byrow = TRUE)[1, , drop = FALSE])$mean, predict(pca)$mean[1, ], 1e-12))

file <- tempfile()
pu_save(nile, file, "of R")
fresh <- pu_model("structural", Nile, parts = "level")
check("saved and loaded", identical(pu_load(fresh, file)$theta, nile$theta))
refuses("a file of another model", "pu_error", "model file", pu_load(pca, file))
saveRDS(nile, file)
check("a handle is made again after readRDS", identical(coef(readRDS(file)), coef(nile)))
check("a model that was made is fitted", identical(pu_fit(fresh)$theta, nile$theta))

# ---- refusals

refuses("a model that is not there", "pu_error", "noisy_ar", pu_fit("nosuch", Nile))
refuses("a key that is not there", "pu_error", "level (no such key here", pu_fit("structural", Nile, level = 1))
refuses("a part that is not there", "pu_error", "season_trig", pu_fit("structural", Nile, parts = "levle"))
refuses("an option's word", "pu_error", "kalman", pu_fit("structural", Nile, parts = "level", engine = "fast"))
refuses("a text for a number", "pu_error", "a number is wanted", pu_fit("structural", Nile, parts = "level", steps = "many"))
refuses("infinite data", "pu_error", "data.y", pu_fit("structural", c(1, Inf, 2), parts = "level"))
refuses("nothing but gaps", "pu_error", "", pu_fit("structural", rep(NA_real_, 9), parts = "level"))
refuses("a level that is NA", "error", "NA is not a level", pu_fit("effects", 1:3, level.g = c(1, NA, 2)))
refuses("levels of another length", "pu_error", "level.g", pu_fit("effects", 1:3, level.g = 1:2))
refuses("a theta of another length", "error", "theta: 2 numbers are wanted, here are 1", pu_fit("structural", Nile, parts = "level", theta = 1))
refuses("keys without a name", "error", "by name", pu_fit("structural", Nile, "level"))
refuses("letters", "error", "numbers are wanted", pu_fit("structural", letters, parts = "level"))
refuses("keys for a model that is made", "error", "already", pu_fit(fresh, parts = "level"))
refuses("n.ahead with regressors", "error", "regressors", predict(huron, n.ahead = 2))
refuses("not a handle", "error", "another session", .Call("pu_r_text", NULL, "explain"))
check("a status has its name", identical(caught(pu_fit("nosuch", Nile))$status, "PU_E_ARGUMENT"))

# ---- progress, Ctrl-C

# Data with gaps, so that there are steps to be made.
slow <- function(progress) pu_fit("ppca", matrix(y, 30, byrow = TRUE), latent = 2, optimizer = "adam", steps = 50, progress = progress)
check("progress ends a fit", slow(function(step, objective) step == 3)$steps == 3)
seen <- c()
invisible(slow(function(step, objective) { seen <<- c(seen, objective); FALSE }))
check("progress has the objective", length(seen) == 50 && all(is.finite(seen)))
refuses("an error in progress ends the fit", "error", "the progress function failed", slow(function(step, objective) stop("on purpose")))
said <- NULL
stopped <- withCallingHandlers(slow(function(step, objective) { if (step == 5) tools::pskill(Sys.getpid(), tools::SIGINT); FALSE }),
                               warning = function(w) { said <<- conditionMessage(w); invokeRestart("muffleWarning") })
check("Ctrl-C ends a fit with the best so far", stopped$interrupted && stopped$steps %in% 5:7 && grepl("best parameters so far", said))
check("a fit after Ctrl-C", slow(NULL)$steps == 50)

# ---- memory

for (k in 1:50) pu_model("ppca", matrix(1:12, 4), latent = 1)
many <- .Call("pu_r_alive")
rm(k, level, pca, nile, huron, reml, line, fresh, stopped)
invisible(gc())
invisible(gc())
check(paste("the garbage collector frees handles:", many, "then", .Call("pu_r_alive")), .Call("pu_r_alive") == 0)

cat(passed, " passed, ", failed, " failed\n", sep = "")
if (failed > 0) quit(status = 1)
